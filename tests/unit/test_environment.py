"""What a job finds in its environment: Slurm's names with this allocation's values, and nobody else's."""

from __future__ import annotations

from typing import Any

from agent.runs.environment import is_ours, job_environment, nodes_own
from gsched.protocol.link import LaunchSpec
from gsched.values.ids import JobId, NodeName, RunKey, RunNo

KEY = RunKey(JobId(42), RunNo(2))
N2 = NodeName("n2")


def environment(**changes: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "uid": 1000,
        "gid": 1000,
        "user": "ann",
        "job_name": "train",
        "cluster": "c1",
        "partition": "main",
        "node_index": 1,
        "nodes": tuple(NodeName(f"n{i}") for i in (1, 2, 3)),
        "addresses": ("10.0.0.1", "10.0.0.2", "10.0.0.3"),
        "cpus": 16,
        "mem_mib": 65536,
        "gpu_uuids": ("GPU-b", "GPU-a"),
        "gpu_indices": (5, 2),
        "port": 20007,
        "master_port": 20001,
        "ntasks": 5,
        "tasks_per_node": 2,
        "ntasks_per_node_asked": None,
        "cpus_per_task": 8,
        "cpus_per_task_asked": False,
        "gpus_per_node_asked": None,
        "gpus_asked": None,
        "mem_asked_mib": None,
        "time_limit_s": 0,
        "grace_s": 30,
        "restarts": 0,
        "chdir": "/home/ann/run",
        "submit_dir": "/home/ann",
        "submit_host": "login",
    }
    return job_environment(KEY, LaunchSpec(**{**values, **changes}), N2, "/run/agent.sock", "t0k3n")


def test_slurms_variables_say_which_job_this_is_and_where() -> None:
    found = environment()
    expected = {
        "SLURM_JOB_ID": "42",
        "SLURM_JOBID": "42",
        "SLURM_JOB_NAME": "train",
        "SLURM_JOB_USER": "ann",
        "SLURM_JOB_UID": "1000",
        "SLURM_JOB_PARTITION": "main",
        "SLURM_JOB_ACCOUNT": "default",
        "SLURM_JOB_QOS": "normal",
        "SLURM_CLUSTER_NAME": "c1",
        "SLURM_SUBMIT_DIR": "/home/ann",
        "SLURM_SUBMIT_HOST": "login",
        "SLURM_JOB_NODELIST": "n[1-3]",
        "SLURM_NODELIST": "n[1-3]",
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_NNODES": "3",
        "SLURM_NTASKS": "5",
        "SLURM_NPROCS": "5",
        "SLURM_TASKS_PER_NODE": "2(x2),1",
        "SLURM_CPUS_ON_NODE": "16",
        "SLURM_JOB_CPUS_PER_NODE": "16(x3)",
        "SLURM_MEM_PER_NODE": "65536",
        "SLURM_NODEID": "1",
        "SLURMD_NODENAME": "n2",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert all(found[name.replace("SLURM_", "GSCHED_")] == expected[name] for name in expected if name[5] == "_")


def test_gpus_are_uuids_in_granted_order_and_indices_only_under_slurms_name() -> None:
    found = environment(gpus_asked=6, gpus_per_node_asked=2)
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert found["SLURM_JOB_GPUS"] == "5,2"
    assert (found["SLURM_GPUS"], found["SLURM_GPUS_PER_NODE"], found["SLURM_GPUS_ON_NODE"]) == ("6", "2", "2")


def test_a_job_without_gpus_sees_none() -> None:
    found = environment(gpu_uuids=(), gpu_indices=())
    assert (found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]) == ("none", "void")
    assert "SLURM_JOB_GPUS" not in found


def test_what_was_not_asked_is_not_said() -> None:
    quiet = environment()
    for name in ("SLURM_NTASKS_PER_NODE", "SLURM_CPUS_PER_TASK", "SLURM_GPUS", "SLURM_RESTART_COUNT"):
        assert name not in quiet
    asked = environment(ntasks_per_node_asked=2, cpus_per_task_asked=True, restarts=3)
    assert (asked["SLURM_NTASKS_PER_NODE"], asked["SLURM_CPUS_PER_TASK"], asked["SLURM_RESTART_COUNT"]) == (
        "2",
        "8",
        "3",
    )


def test_ranks_can_meet_at_the_first_nodes_port() -> None:
    found = environment()
    assert (found["MASTER_ADDR"], found["MASTER_PORT"]) == ("10.0.0.1", "20001")
    assert (found["GSCHED_MASTER_PORT"], found["GSCHED_PORT"]) == ("20001", "20007")


def test_our_own_variables_lead_commands_inside_the_job_to_this_node() -> None:
    found = environment()
    assert found["GSCHED_SOCKET"] == "/run/agent.sock"
    assert (found["GSCHED_NODE"], found["GSCHED_RUN"], found["GSCHED_RUN_KEY"]) == ("n2", "2", "42.2")


def test_the_submitters_variables_are_kept_but_those_that_name_an_allocation() -> None:
    theirs = {
        "HOME": "/home/ann",
        "PATH": "/opt/bin",
        "SLURM_JOB_ID": "1",
        "SLURM_ARRAY_TASK_ID": "3",
        "GSCHED_SOCKET": "/login.sock",
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "MASTER_PORT": "29500",
    }
    found = environment(environment=theirs)
    assert (found["HOME"], found["PATH"]) == ("/home/ann", "/opt/bin")
    assert (found["SLURM_JOB_ID"], found["GSCHED_SOCKET"]) == ("42", "/run/agent.sock")
    assert (found["CUDA_VISIBLE_DEVICES"], found["MASTER_PORT"]) == ("GPU-b,GPU-a", "20001")
    assert "SLURM_ARRAY_TASK_ID" not in found
    assert is_ours("SLURM_X")
    assert not is_ours("SLURMISH")


def test_a_step_takes_from_the_node_what_only_the_node_knows() -> None:
    own = nodes_own(environment())
    assert own["GSCHED_RUN_TOKEN"] == "t0k3n"
    assert (own["SLURM_JOB_GPUS"], own["SLURMD_NODENAME"]) == ("5,2", "n2")
    assert "CUDA_VISIBLE_DEVICES" not in own  # grun may give each task a part of them
