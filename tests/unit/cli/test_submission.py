"""From gsub's words, variables and script to the request it sends."""

from __future__ import annotations

import pytest

from gsched.cli._submission import STDIN, Here, Submission, read_submission
from gsched.errors import BadRequest, TooLarge
from gsched.values.job import JobPayload, JobSpec

HERE = Here(cwd="/home/ann", umask=0o027, host="login1")
PLAIN = "#!/bin/sh\ntrue\n"


def submit(*argv: str, script: str = PLAIN, **environment: str) -> Submission:
    """Read a command line whose script `train.sh` (and standard input) holds `script`."""

    def read_file(path: str) -> bytes:
        assert path in {"dir/train.sh", "a\nb\udcff.sh", STDIN}
        return script.encode()

    return read_submission(argv, environment, read_file, HERE, "id-1")


def spec(*argv: str, script: str = PLAIN, **environment: str) -> JobSpec:
    return submit(*argv, "dir/train.sh", script=script, **environment).request.spec


def refused(*argv: str, script: str = PLAIN, **environment: str) -> str:
    with pytest.raises(BadRequest) as error:
        submit(*argv, "dir/train.sh", script=script, **environment)
    return error.value.text


def test_a_bare_script_asks_nothing_and_takes_over_where_it_was_submitted() -> None:
    made = submit("dir/train.sh", "--epochs", "3", A="1", SLURM_JOB_ID="7")
    assert made.request.spec == JobSpec(name="train.sh", chdir="/home/ann", umask=0o027, submit_host="login1")
    assert made.request.payload == JobPayload(PLAIN.encode(), ("--epochs", "3"), {"A": "1"})
    assert made.request.request_id == "id-1"


def test_every_option_has_its_place_in_the_request() -> None:
    line = (
        "-J train -p long -N 2-4 -n 16 --ntasks-per-node 8 -c 2 --mem 4G -t 1-0 -G h100:32 --gpus-per-node H100:8 "
        "-w n[1-2] -x n9 -C ib&nvme -o out-%j -e err-%j --open-mode append -D work -A default --comment hi -H "
        "--no-requeue"
    )
    assert spec(*line.split()) == JobSpec(
        name="train",
        partition="long",
        nodes_min=2,
        nodes_max=4,
        ntasks=16,
        ntasks_per_node=8,
        cpus_per_task=2,
        mem_mib=4096,
        time_limit_s=86400,
        gpus=32,
        gpus_per_node=8,
        gpu_model="H100",
        nodelist=("n1", "n2"),  # type: ignore[arg-type]  # names are texts
        exclude=("n9",),  # type: ignore[arg-type]  # names are texts
        constraint="ib&nvme",
        hold=True,
        requeue=False,
        chdir="/home/ann/work",
        output="out-%j",
        error="err-%j",
        open_append=True,
        comment="hi",
        umask=0o027,
        submit_host="login1",
    )


def test_gres_is_gpus_on_each_node() -> None:
    made = spec("--gres=gpu:a100:2")
    assert (made.gpus_per_node, made.gpus, made.gpu_model) == (2, None, "a100")
    assert spec("--gres=none").gpus_per_node is None


def test_a_command_is_wrapped_into_a_script() -> None:
    made = submit("--wrap", "echo a; echo b")
    assert made.request.payload.script == b"#!/bin/sh\n# Made by gsub --wrap.\n\necho a; echo b\n"
    assert made.request.spec.name == "wrap"


def test_without_a_script_standard_input_is_read() -> None:
    assert submit("-n2", script="#!/bin/sh\n#SBATCH -c3\n").request.spec.cpus_per_task == 3
    assert submit().request.spec.name == "sbatch"


def test_options_after_the_script_are_the_scripts() -> None:
    made = submit("-N1", "dir/train.sh", "-N2", "--help")
    assert (made.request.spec.nodes_min, made.request.payload.args) == (1, ("-N2", "--help"))


def test_the_command_line_counts_before_the_environment_before_the_script() -> None:
    script = "#!/bin/sh\n#SBATCH -t 1 -p s -c 3\n#GSUB -c 4\n"
    assert spec(script=script).cpus_per_task == 4
    made = spec("-t", "3", script=script, SBATCH_TIMELIMIT="2", SBATCH_PARTITION="e")
    assert (made.time_limit_s, made.partition, made.cpus_per_task) == (180, "e", 4)
    assert spec(SBATCH_PARTITION="s", GSUB_PARTITION="g").partition == "g"
    assert spec(SBATCH_PARTITION="").partition == ""


def test_a_nearer_rival_silences_the_farther() -> None:
    script = "#!/bin/sh\n#SBATCH --gres=gpu:a100:8 --no-requeue\n"
    made = spec("--gpus-per-node=2", script=script, SBATCH_REQUEUE="1")
    assert (made.gpus_per_node, made.gpu_model, made.requeue) == (2, "", True)


def test_an_error_says_where_the_value_was_given() -> None:
    assert refused("-t", "-5").startswith("--time: a time cannot be negative: '-5' (forms: MINUTES, ")
    assert refused("-t", "1:2:3:4").startswith("--time: not a time: '1:2:3:4'")
    assert refused(SBATCH_TIMELIMIT="x").startswith("SBATCH_TIMELIMIT: not a time: 'x'")
    script = "#!/bin/sh\n#SBATCH -n1\n#GSUB --time=x\n"
    assert refused(script=script).startswith("dir/train.sh:3: --time: not a time: 'x'")


@pytest.mark.parametrize("count", ["0", "-1", "nan", "inf", "9" * 30, "0.5", ""])
@pytest.mark.parametrize("option", ["--gpus", "--gpus-per-node", "-G"])
def test_a_count_of_gpus_is_whole_positive_and_sane(option: str, count: str) -> None:
    assert "GPUs" in refused(option, count)


def test_fractions_are_not_there_yet() -> None:
    assert (
        refused("--gres=gpu:0.5")
        == "--gres: 0.5 GPUs were asked; fractions of a GPU are not supported yet, ask for whole ones"
    )


@pytest.mark.parametrize(
    "words",
    [
        "--array=0-3",
        "-a 0-3",
        "-a0-3",
        "--array",
        "-d afterok:1",
        "--exclusive",
        "--exclusive=user",
        "-W",
        "--container-image=x",
        "--mem-per-cpu 4G",
        "--qos=high",
        "--signal=USR2@90",
        "--wckey=submitit",
        "-b now+1hour",
    ],
)
def test_an_option_of_sbatch_that_is_not_there_yet_is_named(words: str) -> None:
    names = {"-a": "--array", "-a0-3": "--array", "-d": "--dependency", "-W": "--wait", "-b": "--begin"}
    first = words.split()[0].split("=")[0]
    text = f"{names.get(first, first)} is not supported yet"
    assert refused(*words.split()) == text
    assert refused(script=f"#!/bin/sh\n\n#SBATCH {words}\n") == f"dir/train.sh:3: {text}"


def test_a_variable_of_sbatch_that_is_not_there_yet_is_named() -> None:
    assert refused(SBATCH_ARRAY_INX="0-3") == "SBATCH_ARRAY_INX is set, but --array is not supported yet; unset it"


def test_an_unknown_option_is_answered_with_the_near_one() -> None:
    assert refused("--tme=5") == "unknown option --tme (did you mean --time?); see gsub --help"
    script = "#!/bin/sh\n#SBATCH --partitoin=x\n"
    assert (
        refused(script=script)
        == "dir/train.sh:2: unknown option --partitoin (did you mean --partition?); see gsub --help"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-n 4 stray", "dir/train.sh:2: 'stray' on the #SBATCH line is not an option; options begin with a dash"),
        ("hetjob", "dir/train.sh:2: hetjob is not supported yet"),
        ("--wrap=true", "dir/train.sh:2: unknown option --wrap"),
        ("--help", "dir/train.sh:2: unknown option --help"),
        ("--time", "dir/train.sh:2: option '--time' requires an argument"),
        ("-J 'x", "dir/train.sh:2: a quote (') is not closed"),
        (
            "--gres=gpu:1 --gpus-per-node=2",
            "dir/train.sh:2: --gres and dir/train.sh:2: --gpus-per-node exclude each other",
        ),
    ],
)
def test_a_directive_that_cannot_be_meant_is_refused_with_file_and_line(line: str, why: str) -> None:
    assert refused(script=f"#!/bin/sh\n#SBATCH {line}\n").startswith(why)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("--gres=gpu:1 --gpus-per-node=2", "--gres and --gpus-per-node exclude each other; give one of them"),
        ("-G a100:2 --gpus-per-node=h100:1", "--gpus: a100 and h100 GPUs in one job are not supported yet"),
        ("-p a,b", "--partition: several partitions are not supported yet: 'a,b'; name one"),
        ("-A physics", "--account: accounts are not supported yet: 'physics'"),
        ("-w n[1-3] -x n2", "--exclude: n2 is asked for by --nodelist too"),
        ("-N 2 -w n[1-3]", "--nodelist: 3 nodes are named, but --nodes allows 2"),
        ("--open-mode=x", "--open-mode: not a mode: 'x' (append or truncate)"),
        ("-o out-%q", "--output: unknown mark %q in the file name"),
        ("-C a&b|c", "--constraint: & and | in one constraint are not supported yet"),
        ("--mem=2GB", "--mem: not a size of memory: '2GB'"),
        ("--export=1x", "--export: not a value of --export"),
        ("-N 4-2", "--nodes: from 4 to 2 nodes were asked"),
        ("-n 0", "--ntasks: 0 tasks were asked; the least is 1"),
        ("--wrap=true", "--wrap takes the whole command as one text; 'dir/train.sh' is left over"),
    ],
)
def test_a_mistake_is_answered_with_option_and_reason(words: str, why: str) -> None:
    assert refused(*words.split()).startswith(why)


def test_names_are_any_printable_text() -> None:
    assert spec("-J", "crazy|name ü").name == "crazy|name ü"
    for bad in ("", "a\nb", "a\x1b[31m"):
        assert "not a job's name" in refused("-J", bad)


def test_what_is_shown_must_be_utf8_and_what_only_the_job_sees_need_not() -> None:
    assert refused("--comment", "\udcff") == "--comment: '\\udcff' is not UTF-8"
    with pytest.raises(BadRequest, match=r"the working directory: .* is not UTF-8"):
        read_submission(["--wrap=true"], {}, lambda _: b"", Here(cwd="/home/\udcff"))
    payload = submit("--export=A=\udcff", "dir/train.sh", "\udcff").request.payload
    assert (payload.args, payload.environment) == (("\udcff",), {"A": "\udcff"})
    assert submit("--wrap", "cat \udcff").request.payload.script.endswith(b"cat \xff\n")


def test_a_job_is_named_after_its_script_in_letters_that_can_be_shown() -> None:
    assert submit("a\nb\udcff.sh").request.spec.name == "a b\\udcff.sh"


def test_a_script_that_is_not_one_is_refused_before_anything_else() -> None:
    assert refused("-n", "4", script="echo hi\n").startswith("dir/train.sh:1: the first line must begin with #!")
    with pytest.raises(BadRequest, match="standard input: the script is empty"):
        submit(script="")


def test_an_environment_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge, match=r"the environment has .* the most is 1048576"):
        submit("dir/train.sh", BIG="x" * 2_000_000)
    assert submit("--export=NONE", "dir/train.sh", BIG="x" * 2_000_000).request.payload.environment == {}


def test_warnings_come_with_the_request() -> None:
    made = submit("--export=NOWHERE", "dir/train.sh", script="#!/bin/sh\n#PBS -q x\n")
    assert [text.split(" ")[0] for text in made.warnings] == ["dir/train.sh:2:", "--export:"]


def test_how_to_answer_is_said_in_either_place() -> None:
    assert submit("--parsable", "dir/train.sh").parsable
    assert submit("dir/train.sh", script="#!/bin/sh\n#SBATCH --parsable -Q\n")[2:4] == (True, True)


def test_where_the_nodes_may_be_and_how_soon() -> None:
    spec = submit(
        "--switches", "2@1:30", "--segment", "4", "--prefer-level", "pod", "--nice", "7", "dir/train.sh"
    ).request.spec
    assert (spec.switches, spec.switches_wait_s, spec.segment, spec.prefer_level, spec.nice) == (2, 90, 4, "pod", 7)
    spec = submit(
        "dir/train.sh", script="#!/bin/sh\n#SBATCH --switches=1\n#GSUB --level=leaf --reservation=r\n"
    ).request.spec
    assert (spec.switches, spec.switches_wait_s, spec.level, spec.reservation) == (1, 0, "leaf", "r")
    assert submit("--topology", "any", "dir/train.sh").request.spec.any_topology


def test_what_is_wrong_with_where_and_how_soon() -> None:
    assert refused("--switches", "x", "dir/train.sh").startswith("--switches: ")
    assert refused("--switches", "1@x", "dir/train.sh").startswith("--switches: not a time: 'x'")
    assert refused("--nice", "x", "dir/train.sh") == "--nice: not a number: 'x' (a whole number, as 100)"
    assert refused("--topology", "ring", "dir/train.sh").startswith("--topology: not a topology: 'ring'")
    assert refused("--level", "a", "--topology", "any", "dir/train.sh").endswith("exclude each other; give one of them")


def test_a_trial_is_asked_for_on_the_command_line_only() -> None:
    assert submit("--test-only", "--alternatives", "--json", "dir/train.sh").trial == (True, True)
    assert submit("dir/train.sh").trial is None
    assert refused("--alternatives", "dir/train.sh") == "--alternatives goes with --test-only"
