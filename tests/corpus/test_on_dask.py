"""A survey gives the same on every cluster, whatever happens to its workers."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import irscope as irs
from irscope.errors import LoadError
from tests.corpus.programs import chain, crashes, hangs
from tests.corpus.test_survey import MODELS, same, tables

distributed = pytest.importorskip("distributed")


def many(count: int) -> dict[str, Any]:
    """Models of which some are the same, some differ in a number and some in a size."""
    ops = ("relu", "tanh", "exp", "sin", "sigmoid")
    return {
        f"model {n}": chain(*(ops[(n + k * n) % 5] for k in range(2 + n % 3)), size=4 + n % 2, scale=0.5 + 0.25 * (n % 4))
        for n in range(count)
    }


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_and_this_machine_find_the_same(tmp_path: Path) -> None:
    models = {**MODELS, "crashes": crashes, "bad": "graph(%x"}
    with distributed.Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0", memory_limit=0, security=False
    ) as client:
        there = irs.corpus.survey(models, client, tmp_path / "there", seconds=20)
    again = irs.corpus.survey(models, out=tmp_path / "there", processes=1, seconds=20)
    assert again.failures["model"].tolist() == ["crashes", "bad"]
    same(tables(there), tables(again))
    assert there.classes["members"].tolist() == [2, 1, 1, 1]


def test_a_scheduler_that_is_not_there_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any, **options: Any) -> Any:
        raise OSError("Timed out trying to connect")

    monkeypatch.setattr(distributed.Client, "__init__", refused)
    with pytest.raises(LoadError, match="no Dask scheduler at 'tcp:"):
        irs.corpus.survey(MODELS, "tcp://127.0.0.1:1", tmp_path / "out")


def slow(text: str) -> str:
    """A model that takes a moment, so that workers can be killed in the middle of it."""
    time.sleep(0.5)
    return text


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_two_of_four_workers_are_killed_and_bad_models_are_among_them(tmp_path: Path) -> None:
    """The result is that of an undisturbed survey; a corrupt file, one that hangs and one of 300 MB are left out or read."""
    corrupt, large = tmp_path / "corrupt.onnx", tmp_path / "large.onnx"
    corrupt.write_bytes(b"\x08\x07" + bytes(range(256)) * 40)
    write_large(large)
    models: dict[str, Any] = {name: partial(slow, text) for name, text in many(60).items()}
    models |= {"corrupt": corrupt, "hangs": hangs, "large": large}
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster:
        client = distributed.Client(cluster)
        pids = list(client.run(os.getpid).values())
        killer = threading.Thread(target=kill_some, args=(pids[:2], tmp_path / "disturbed"), daemon=True)
        killer.start()
        disturbed = irs.corpus.survey(models, client, tmp_path / "disturbed", seconds=20)
        killer.join()
        assert set(client.run(os.getpid).values()) != set(pids), "workers were killed"
        client.close()
    assert disturbed.failures["model"].tolist() == ["corrupt", "hangs"]
    assert "large" in set(disturbed.models["model"])
    undisturbed = irs.corpus.survey(models, out=tmp_path / "undisturbed", processes=2, seconds=20)
    same(tables(undisturbed), tables(disturbed))


def write_large(path: Path) -> None:
    """A model of which the weight of one product has 300 MB."""
    onnx = pytest.importorskip("onnx")
    weight = onnx.numpy_helper.from_array(np.zeros((1000, 75_000), np.float32), "w")
    value = partial(onnx.helper.make_tensor_value_info, elem_type=onnx.TensorProto.FLOAT)
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"]), onnx.helper.make_node("Relu", ["y"], ["z"])]
    graph = onnx.helper.make_graph(nodes, "large", [value("x", shape=(1, 1000))], [value("z", shape=(1, 75_000))], [weight])
    path.write_bytes(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10).SerializeToString())
    assert path.stat().st_size > 300_000_000


def kill_some(pids: list[int], out: Path) -> None:
    """Kill each when some more models are done."""
    for number, pid in enumerate(pids):
        while len(list(out.glob("models/*/*.json"))) < 5 + 10 * number:
            time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_process_is_killed_in_the_middle_and_begins_again(tmp_path: Path) -> None:
    import subprocess
    import sys

    models, out = many(40), tmp_path / "out"
    code = (
        "from pathlib import Path; import irscope as irs; from tests.corpus.test_on_dask import many; "
        f"irs.corpus.survey(many(40), out=Path({str(out)!r}), processes=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    while len(list(out.glob("models/*/*.json"))) < 7 and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("models/*/*.json")}
    resumed = irs.corpus.survey(models, out=out, processes=2)
    assert done.items() <= {path.name: path.stat().st_mtime_ns for path in out.glob("models/*/*.json")}.items()
    same(tables(irs.corpus.survey(models, out=tmp_path / "whole", processes=2)), tables(resumed))
