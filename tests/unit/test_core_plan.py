"""What one pass decides: gangs whole, planned starts guarded, reasons told."""

from __future__ import annotations

from gsched.values.job import MemoryRule
from gsched.values.states import Reason
from gschedd.core.inputs import Availability, Policy
from tests.builders.cluster import Cluster, inventory, request


def test_jobs_start_in_queue_order_while_they_fit() -> None:
    c = Cluster(nodes=2)
    c.pending("first", request(1, gpus=8))
    c.pending("second", request(1, gpus=8))
    c.pending("third", request(1, gpus=8))
    outcome = c.plan()
    assert outcome.started == {"first": ["n1"], "second": ["n2"]}
    assert outcome.reasons == {"third": Reason.RESOURCES}
    assert outcome.planned == {"third": (3600, ["n1"])}


def test_a_gang_of_32_gpus_behind_a_running_job_of_8_waits_and_holds_nothing() -> None:
    c = Cluster(nodes=4)
    c.running("n2", gpus=8, cores=8, ends_in_s=600)
    c.pending("gang", request(4, gpus=8))
    outcome = c.plan()
    assert outcome.started == {}
    assert outcome.planned == {"gang": (600, ["n1", "n2", "n3", "n4"])}
    assert outcome.reasons == {"gang": Reason.RESOURCES}
    assert outcome.details == {"gang": "needs 4 nodes with 8 GPUs, 1 core each: 3 such free now"}


def test_a_lower_job_runs_beside_a_waiting_gang_only_if_it_ends_before_it() -> None:
    c = Cluster(nodes=4)
    c.running("n2", gpus=8, ends_in_s=600)
    c.pending("gang", request(4, gpus=8))
    c.pending("too long", request(1, gpus=8, limit_s=601))
    c.pending("short", request(1, gpus=8, limit_s=600))
    c.pending("no limit", request(1, gpus=1, limit_s=0))
    outcome = c.plan()
    assert outcome.started == {"short": ["n1"]}
    assert outcome.reasons["too long"] is Reason.PRIORITY
    assert outcome.details["too long"] == "would delay job 1"
    assert outcome.reasons["no limit"] is Reason.PRIORITY


def test_a_lower_job_runs_for_ever_on_what_a_waiting_gang_leaves_free() -> None:
    c = Cluster(nodes=2)
    c.running("n1", gpus=8, ends_in_s=600)
    c.pending("gang", request(2, gpus=8, cores=60, memory=1000))
    c.pending("five cores", request(1, cores=5, limit_s=0))
    c.pending("four cores", request(1, cores=4, limit_s=0))
    outcome = c.plan()
    assert outcome.planned["gang"] == (600, ["n1", "n2"])
    assert outcome.started == {"four cores": ["n1"]}
    assert outcome.reasons["five cores"] is Reason.PRIORITY


def test_behind_runs_that_never_end_a_gang_keeps_what_is_free_from_jobs_without_a_limit() -> None:
    """Else jobs without a limit would pass it for ever: when the run ends, others would hold the rest."""
    c = Cluster(nodes=4)
    c.running("n1", gpus=8, ends_in_s=None)
    c.pending("gang", request(4, gpus=8))
    c.pending("no limit", request(1, gpus=1, limit_s=0))
    c.pending("limited", request(1, gpus=1, limit_s=100_000))
    outcome = c.plan()
    assert outcome.started == {"limited": ["n2"]}
    assert outcome.planned == {}
    assert outcome.reasons == {"gang": Reason.RESOURCES, "no limit": Reason.PRIORITY}


def test_with_two_planned_starts_the_second_is_planned_beside_the_first() -> None:
    c = Cluster(nodes=2)
    c.running("n1", "n2", gpus=8, ends_in_s=600)
    c.pending("first", request(2, gpus=8, limit_s=1000))
    c.pending("second", request(1, gpus=8, limit_s=50))
    c.pending("third", request(1, gpus=8, limit_s=50))
    assert c.plan(Policy(planned_starts=1)).planned == {"first": (600, ["n1", "n2"])}
    assert c.plan(Policy(planned_starts=2)).planned["second"] == (1600, ["n1"])
    assert c.plan(Policy(planned_starts=9)).planned["third"] == (1600, ["n2"])


def test_a_run_over_its_expected_end_counts_as_a_minute_from_now_and_nothing_slips_in_before() -> None:
    c = Cluster(nodes=2)
    c.running("n1", gpus=8, ends_in_s=-5)
    c.pending("gang", request(2, gpus=8))
    c.pending("very short", request(1, gpus=8, limit_s=10))
    outcome = c.plan()
    assert outcome.planned["gang"] == (60, ["n1", "n2"])
    assert outcome.reasons["very short"] is Reason.PRIORITY


def test_a_job_started_in_this_pass_counts_for_planned_starts() -> None:
    c = Cluster(nodes=1)
    c.pending("now", request(1, gpus=8, limit_s=100))
    c.pending("next", request(1, gpus=8))
    assert c.plan().planned == {"next": (100, ["n1"])}


def test_under_strict_order_nobody_passes_a_job_that_waits() -> None:
    c = Cluster(nodes=2)
    c.running("n1", gpus=8)
    c.pending("gang", request(2, gpus=8))
    c.pending("small", request(1, gpus=1, limit_s=1))
    outcome = c.plan(Policy(strict_order=True))
    assert outcome.started == {}
    assert outcome.details["small"] == "waits behind job 1"


def test_drained_and_silent_nodes_take_nothing_and_have_no_future() -> None:
    c = Cluster(nodes=1)
    c.node("n2", state=Availability.DRAINED)
    c.node("n3", state=Availability.AWAY)
    c.pending("one", request(1, gpus=8))
    c.pending("two", request(2, gpus=8))
    c.pending("named", request(1, gpus=8, on=["n3"]))
    outcome = c.plan()
    assert outcome.started == {"one": ["n1"]}
    assert outcome.planned == {}
    assert outcome.reasons == {"two": Reason.REQ_NODE_NOT_AVAIL, "named": Reason.REQ_NODE_NOT_AVAIL}
    assert outcome.details["named"] == "drained or away: n3"


def test_a_node_that_a_job_avoids_is_not_used_but_the_job_stays_possible() -> None:
    c = Cluster(nodes=2)
    c.pending("elsewhere", request(1, gpus=8), avoid=["n1"])
    c.pending("needs both", request(2, gpus=8), avoid=["n1"])
    outcome = c.plan()
    assert outcome.started == {"elsewhere": ["n2"]}
    assert outcome.reasons == {"needs both": Reason.REQ_NODE_NOT_AVAIL}


def test_a_gpu_that_may_not_be_offered_is_not_given_out() -> None:
    c = Cluster(nodes=0)
    c.node("n1", gpus_out=0b1)
    c.pending("seven", request(1, gpus=7))
    c.pending("eight", request(1, gpus=8))
    outcome = c.plan()
    assert outcome.gpus == {"seven": [0b11111110]}
    assert outcome.reasons == {"eight": Reason.REQ_NODE_NOT_AVAIL}


def test_a_job_that_became_impossible_says_so_and_holds_up_nobody() -> None:
    c = Cluster(nodes=1)
    c.pending("nine", request(1, gpus=9))
    c.pending("eight", request(1, gpus=8))
    outcome = c.plan(Policy(strict_order=True))
    assert outcome.reasons == {"nine": Reason.BAD_CONSTRAINTS}
    assert outcome.started == {"eight": ["n1"]}


def test_without_nodes_jobs_wait_for_nodes() -> None:
    c = Cluster(nodes=0)
    c.pending("any", request(1))
    assert c.plan().reasons == {"any": Reason.NODES_UNKNOWN}


def test_an_elastic_job_starts_with_the_most_that_is_free() -> None:
    c = Cluster(nodes=4)
    c.running("n1", gpus=8)
    c.pending("elastic", request(2, gpus=8, at_most=8))
    assert c.plan().started == {"elastic": ["n2", "n3", "n4"]}


def test_an_elastic_job_is_planned_for_its_least_and_takes_no_more_than_that_of_what_is_planned() -> None:
    c = Cluster(nodes=4)
    c.running("n1", gpus=8, ends_in_s=600)
    c.pending("gang", request(3, gpus=8))
    c.pending("elastic", request(2, gpus=8, at_most=3, limit_s=60))
    outcome = c.plan()
    assert outcome.started == {"gang": ["n2", "n3", "n4"]}
    assert outcome.planned == {"elastic": (3600, ["n1", "n2"])}

    c = Cluster(nodes=4)
    c.running("n1", gpus=8, ends_in_s=600)
    c.pending("gang", request(4, gpus=8))
    c.pending("elastic", request(1, gpus=8, at_most=3, limit_s=60))
    assert c.plan().started == {"elastic": ["n2"]}


def test_memory_goes_by_share_of_gpus_or_of_cores_or_as_asked() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(gpus=8, cores=64, memory_mib=1000))
    c.pending("by gpus", request(1, gpus=2, cores=2))
    c.pending("by cores", request(1, cores=32))
    c.pending("exact", request(1, memory=100))
    c.pending("all", request(1, memory=MemoryRule.ALL))
    outcome = c.plan()
    assert outcome.memory == {"by gpus": [250], "by cores": [500], "exact": [100]}
    assert outcome.reasons == {"all": Reason.RESOURCES}


def test_filters_by_partition_constraint_model_and_names() -> None:
    c = Cluster(nodes=0)
    c.node("n1", inventory(model="NVIDIA A100-SXM4-80GB"), partitions=["main", "a"], features=["ib"])
    c.node("n2", partitions=["main"], features=["ib", "nvme"])
    c.node("n3", partitions=["main"], features=["nvme"])
    c.pending("partition", request(1, gpus=1, partition="a"))
    c.pending("model", request(1, gpus=1, model="a100"))
    c.pending("both features", request(1, gpus=1, constraint="ib&nvme"))
    c.pending("one feature", request(3, gpus=1, constraint="ib|nvme"))
    c.pending("named", request(1, gpus=1, on=["n3"]))
    c.pending("not there", request(1, gpus=1, exclude=["n1", "n2"]))
    assert c.plan().started == {
        "partition": ["n1"],
        "model": ["n1"],
        "both features": ["n2"],
        "one feature": ["n1", "n2", "n3"],
        "named": ["n3"],
        "not there": ["n3"],
    }
