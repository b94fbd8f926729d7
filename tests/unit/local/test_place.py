"""The directory of a local cluster: whose it may be, what may lie in it, how long its name may be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.errors import BadRequest, Conflict, NotFound, NotPermitted
from gsched.local.place import SOCKET_PATH_MAX, Place, default_directory, make_place, open_place
from gsched.values.ids import NodeName

NODES = (NodeName("n1"), NodeName("n2"))


def cluster_in(directory: Path) -> Place:
    place = make_place(directory, NODES)
    place.settings.touch()
    return place


def test_the_directory_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    place = make_place(tmp_path / "a" / "b", NODES)
    assert place.directory.stat().st_mode & 0o777 == 0o700


def test_an_empty_private_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir(0o700)
    assert make_place(tmp_path / "c", NODES).directory == tmp_path / "c"


def test_a_directory_that_others_can_enter_is_refused_with_what_to_do(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir()
    directory.chmod(0o755)
    with pytest.raises(NotPermitted, match=r"mode 0755.*chmod 700"):
        make_place(directory, NODES)


def test_a_cluster_that_was_opened_to_others_is_refused(tmp_path: Path) -> None:
    place = cluster_in(tmp_path / "c")
    place.directory.chmod(0o710)
    with pytest.raises(NotPermitted, match="mode 0710"):
        open_place(place.directory)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir(0o700)
    os.chown(directory, 12345, 12345)
    with pytest.raises(NotPermitted, match="belongs to uid 12345"):
        make_place(directory, NODES)


def test_a_directory_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "c"
    directory.mkdir(0o700)
    (directory / "thesis.tex").touch()
    with pytest.raises(BadRequest, match="not empty and holds no cluster"):
        make_place(directory, NODES)


def test_a_file_is_not_a_directory(tmp_path: Path) -> None:
    (tmp_path / "c").touch(0o600)
    with pytest.raises(BadRequest, match="not a directory"):
        make_place(tmp_path / "c", NODES)
    with pytest.raises(BadRequest, match="Not a directory"):
        make_place(tmp_path / "c" / "d", NODES)


def test_without_a_cluster_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"no cluster in .*: `gsched up --dir"):
        open_place(tmp_path)


def test_a_path_too_long_for_a_socket_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    room = SOCKET_PATH_MAX - len(os.fsencode(tmp_path / "x" / "nodes" / "n1" / "agent.sock")) + 1
    with pytest.raises(BadRequest, match=r"has 108 bytes, a unix socket's can have 107"):
        make_place(tmp_path / ("x" * (room + 1)), NODES)
    assert not list(tmp_path.iterdir())
    make_place(tmp_path / ("x" * room), NODES)


def test_only_one_works_in_it_at_a_time(tmp_path: Path) -> None:
    place = cluster_in(tmp_path / "c")
    with place.claimed(), pytest.raises(Conflict, match="another `gsched up`"), place.claimed():
        pass
    with place.claimed():
        pass


def test_the_default_is_told_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_DIR", "/tmp/try")
    assert default_directory() == Path("/tmp/try")
    monkeypatch.delenv("GSCHED_DIR")
    monkeypatch.setenv("HOME", "/home/alice")
    assert default_directory() == Path("/home/alice/.gsched/local")
