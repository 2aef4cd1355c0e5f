"""The command line: what it prints, writes and exits with, in part as real processes."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.datasets import make_blobs

import pellucid
from pellucid import MLP, TELL, Centers, Training, cli
from pellucid.training import Diverged

QUICK = ["--autoencoder", "identity", "--n_init", "1", "--max_iter", "2", "--random_state", "0"]
X, Y = make_blobs(60, 4, centers=3, random_state=0)
X = X.astype(np.float32)
FRAME = pd.DataFrame(X, columns=list("abcd"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of X."""
    folder = tmp_path_factory.mktemp("model") / "run"
    TELL(3, autoencoder="identity", n_init=1, max_iter=2, random_state=0).fit(X).save(folder)
    return folder


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of FRAME, which knows its columns."""
    folder = tmp_path_factory.mktemp("named") / "run"
    TELL(3, autoencoder="identity", n_init=1, max_iter=2, random_state=0).fit(FRAME).save(folder)
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test in a folder of its own, with the data in it."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    np.save("y.npy", Y)


class Call:
    """`main` in this process, its exit code and what it printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: tuple[object, ...]) -> None:
        capsys.readouterr()
        self.code = cli.main([str(word) for word in words])
        self.out, self.err = capsys.readouterr()

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line of an error."""
        lines = [line for line in self.err.splitlines() if line.startswith("pellucid: error: ")]
        assert len(lines) == 1 and "Traceback" not in self.err, self.err
        assert self.err.endswith(lines[0] + "\n") and self.out == ""
        return lines[0].removeprefix("pellucid: error: ")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *words: Call(capsys, words)


def command(*words: object) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "pellucid", *map(str, words)]


# Real processes ------------------------------------------------------------------------------


def test_fit_and_predict_as_processes() -> None:
    words = ["fit", "x.npy", "-k", 3, "--out", "run/", *QUICK]
    done = subprocess.run(command(*words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "epoch" in done.stderr and "saved run" in done.stderr
    assert re.search(r"^ +0 +\d+ +\d+\.\d%$", done.stdout, re.MULTILINE)
    est = pellucid.load("run")
    words = ["predict", "run/", "x.npy", "-o", "labels.csv", "--json"]
    done = subprocess.run(command(*words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sizes"] == np.bincount(est.labels_, minlength=3).tolist()
    labels = pd.read_csv("labels.csv")
    assert list(labels.columns) == ["row", "label"]
    assert_array_equal(labels["row"], np.arange(60))
    assert_array_equal(labels["label"], est.predict(X))


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent in another way")
def test_ctrl_c_in_training_saves_the_best_so_far() -> None:
    options = ["--autoencoder", "identity", "--n_init", 1, "--max_iter", 10**8, "--tol", 0]
    with open("log", "w") as log, open("result", "w") as result:
        words = command("fit", "x.npy", "-k", 3, "--out", "run", "--json", *options)
        process = subprocess.Popen(words, stdout=result, stderr=log)
        try:
            wait_for(r"[1-9]\d*/100000000", Path("log"), process)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
    log_text, result_text = Path("log").read_text(), Path("result").read_text()
    assert re.search("warning: Interrupted.*keeping the best so far", log_text), log_text
    assert "Traceback" not in log_text
    assert json.loads(result_text)["interrupted"] is True
    assert 0 < pellucid.load("run").n_iter_ < 10**8


def wait_for(pattern: str, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not re.search(pattern, log.read_text()):
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def test_bad_input_as_a_process() -> None:
    words = ["fit", "nothing.npy", "--out", "run"]
    done = subprocess.run(command(*words), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pellucid: error: nothing.npy does not exist.\n"


HELP = """
import sys, types
package = types.ModuleType("pellucid")  # the rooms, whatever the front door imports
package.__path__, package.__version__ = [sys.argv[1]], "1.2.3"
sys.modules["pellucid"] = package
from pellucid.cli import main
codes = [main(words) for words in (["--help"], ["--version"], ["predict", "--help"])]
assert codes == [0, 0, 0], codes
assert main(["predict"]) == 2
slow = sorted({"torch", "numpy", "sklearn", "pandas"} & sys.modules.keys())
assert not slow, f"imported {slow}"
"""


def test_help_waits_for_nothing() -> None:
    words = [sys.executable, "-c", HELP, str(Path(pellucid.__file__).parent)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for said in ("fit", "predict", "transform", "evaluate", "info", "Exit codes", "130", "1.2.3"):
        assert said in done.stdout


# fit -----------------------------------------------------------------------------------------


def test_options_reach_the_estimator(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TELL] = []

    def fit(self: TELL, X: Any) -> None:
        seen.append(self)
        raise Diverged("enough")

    monkeypatch.setattr(TELL, "fit", fit)
    Path("c.yaml").write_text(
        "data: x.npy\nout: run\nn_clusters: 7\ntol: 0.5\nimage_shape: [2, 2]\n"
        "training: {optimizer: sgd, clip: 1}\n"
    )
    words = ["--centers.decay", "0.5", "--centers.step", "null", "--training.lr", "1e-3"]
    words += ["--autoencoder", "mlp", "--autoencoder.hidden", "[5, 6]", "--tau", "0.25"]
    assert call("fit", "--config", "c.yaml", "--tol", "0.25", *words).code == 1
    expected = TELL(
        7,
        tol=0.25,
        tau=0.25,
        image_shape=(2, 2),
        centers=Centers(decay=0.5, step=None),
        training=Training("sgd", lr=1e-3, clip=1.0),
        autoencoder=MLP(hidden=(5, 6)),
        verbose=1,
    )
    assert repr(seen[0]) == repr(expected)
    call("fit", "x.npy", "--out", "run", "-k", 4)
    assert repr(seen[1]) == repr(TELL(4, verbose=1))


def test_help_of_fit_lists_every_parameter(call: Any) -> None:
    done = call("fit", "--help")
    assert done.code == 0
    for name in TELL().get_params(deep=False):
        assert f"--{name}" in done.out
    assert "Eq. 7" in done.out and "Exit codes" in done.out


def test_print_config_can_be_given_back(call: Any) -> None:
    done = call("fit", "x.npy", "-k", 3, "--out", "run", *QUICK, "--print_config")
    assert done.code == 0
    Path("c.yaml").write_text(done.out)
    assert call("fit", "--config", "c.yaml", "--json").json["n_clusters"] == 3


def test_fit_in_json(call: Any) -> None:
    said = call("fit", "x.npy", "-k", 3, "--out", "run", "--json", *QUICK).json
    est = pellucid.load("run")
    assert said["sizes"] == np.bincount(est.labels_, minlength=3).tolist()
    assert (said["rows"], said["n_iter"], said["loss"]) == (60, est.n_iter_, est.loss_)
    assert said["interrupted"] is False


class Other(BaseEstimator):
    """Another algorithm.

    Parameters
    ----------
    speed : float, default=1.0
        100 % of it.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed

    def fit(self, X: Any) -> None:
        raise Diverged(f"speed {self.speed}")


@pytest.mark.parametrize("by", ["option", "config"])
def test_the_algorithm_decides_which_options_there_are(
    by: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cli.ALGORITHMS, "other", "Other")
    monkeypatch.setattr(pellucid, "Other", Other, raising=False)
    Path("c.yaml").write_text("algorithm: other\n")
    chosen = ["--algorithm", "other"] if by == "option" else ["--config", "c.yaml"]
    words = ["fit", "x.npy", "--out", "run", *chosen]
    assert "Diverged: speed 3.0" in call(*words, "--speed", "3").error
    assert "--tau" in call(*words, "--tau", "3").error
    assert "100 % of it" in call(*words, "--help").out
    assert "'other', 'third'" not in call("fit", "--algorithm", "third").error


def test_nothing_is_trained_when_the_result_has_no_place(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TELL, "fit", lambda *_: pytest.fail("trained"))
    Path("taken").mkdir()
    Path("taken/thesis.txt").write_text("mine")
    done = call("fit", "x.npy", "--out", "taken")
    assert done.code == 2 and "thesis.txt" in done.error


# predict, transform, evaluate, info ----------------------------------------------------------


def test_predict_without_a_file_prints_the_table(saved: Path, call: Any) -> None:
    done = call("predict", saved, "x.npy")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "row,label" and len(lines) == 61
    assert call("predict", saved, "x.npy", "--json").json["labels"] == [
        int(line.split(",")[1]) for line in lines[1:]
    ]


def test_predict_into_npy(saved: Path, call: Any) -> None:
    said = call("predict", saved, "x.npy", "-o", "l.npy", "--json").json
    labels = np.load("l.npy")
    assert_array_equal(labels, pellucid.load(saved).predict(X))
    assert said["sizes"] == np.bincount(labels, minlength=3).tolist()


@pytest.mark.parametrize("suffix", ["npy", "csv"])
def test_transform(saved: Path, suffix: str, call: Any) -> None:
    assert call("transform", saved, "x.npy", "-o", f"z.{suffix}", "--json").json["rows"] == 60
    z = np.load("z.npy") if suffix == "npy" else pd.read_csv("z.csv").drop(columns="row")
    if suffix == "csv":
        assert list(z.columns) == ["z0", "z1", "z2", "z3"]
    assert_array_equal(np.asarray(z, dtype=np.float32), pellucid.load(saved).transform(X))


def test_evaluate(saved: Path, call: Any) -> None:
    from pellucid.metrics import evaluate

    np.savez("both.npz", X=X, y=Y, other=Y[::-1])
    pd.DataFrame({"row": range(60), "label": [f"class {y}" for y in Y]}).to_csv("y.csv")
    Path("only.csv").write_text("kind\n" + "\n".join(f"class {y}" for y in Y))
    Path("bare.csv").write_text("\n".join(map(str, Y)))
    expected = {"rows": 60, **evaluate(Y, pellucid.load(saved).predict(X))}
    for name in ("y.npy", "both.npz", "y.csv", "only.csv", "bare.csv"):
        assert call("evaluate", saved, "both.npz", "--labels", name, "--json").json == expected
    table = call("evaluate", saved, "x.npy", "--labels", "y.npy").out
    assert re.search(rf"^acc +{expected['acc']:.4f}$", table, re.MULTILINE)
    other = call(
        "evaluate", saved, "x.npy", "--labels", "both.npz", "--labels_key", "other", "--json"
    )
    assert other.json["acc"] == evaluate(Y[::-1], pellucid.load(saved).predict(X))["acc"]


def test_info(saved: Path, call: Any) -> None:
    said = call("info", saved, "--json").json
    assert (said["class"], said["schema"], said["n_clusters"]) == ("TELL", 1, 3)
    assert said["weights"] == 12 and said["params"]["max_iter"] == 2
    assert "settings" in call("info", saved).out


# Files ---------------------------------------------------------------------------------------


def test_every_kind_of_file_gives_the_same_labels(saved: Path, call: Any) -> None:
    expected = pellucid.load(saved).predict(X).tolist()
    np.save("f.npy", np.asfortranarray(X.astype(np.float64)))
    np.savez_compressed("a.npz", X=X, other=X[:5])
    sparse.save_npz("s.npz", sparse.csr_matrix(X))
    np.savetxt("plain.csv", X, delimiter=",", fmt="%.9g")
    np.savetxt("semicolon.csv", X, delimiter=";", fmt="%.9g", header="a;b;c;d", comments="")
    FRAME.to_csv("frame.csv", index=False)
    FRAME.to_parquet("frame.parquet")
    files = ("f.npy", "a.npz", "s.npz", "plain.csv", "semicolon.csv", "frame.csv", "frame.parquet")
    for name in files:
        assert call("predict", saved, name, "--json").json["labels"] == expected, name
    few = call("predict", saved, "a.npz", "--key", "other", "--json").json
    assert few["labels"] == expected[:5]


def test_npy_is_mapped_and_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(cli.read("x.npy", "X").X, np.memmap)
    assert not cli.read("x.npy", "X").X.flags.writeable


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_are_found_by_name(named: Path, suffix: str, call: Any) -> None:
    frame = FRAME[["d", "b", "a", "c"]].assign(extra=1.5, who="somebody")
    write = {"csv": frame.to_csv, "parquet": frame.to_parquet}[suffix]
    write(f"other.{suffix}", index=False)
    done = call("predict", named, f"other.{suffix}", "--json")
    assert done.json["labels"] == pellucid.load(named).predict(FRAME).tolist()
    assert "left out the columns that are not numbers: who" in done.err
    assert "warning" not in done.err
    write = {"csv": FRAME[["a", "b"]].to_csv, "parquet": FRAME[["a", "b"]].to_parquet}[suffix]
    write(f"few.{suffix}", index=False)
    assert "no column c, d" in call("predict", named, f"few.{suffix}").error


def test_a_model_remembers_the_columns_of_a_csv(call: Any) -> None:
    FRAME.assign(who="somebody").to_csv("x.csv", index=False)
    assert call("fit", "x.csv", "-k", 3, "--out", "run", *QUICK).code == 0
    assert list(pellucid.load("run").feature_names_in_) == list("abcd")


def test_data_without_names_for_a_model_with_names_is_a_warning(named: Path, call: Any) -> None:
    done = call("predict", named, "x.npy", "--json")
    assert done.code == 0
    assert done.err.count("\n") == 1 and done.err.startswith("pellucid: warning: X does not have")


@pytest.mark.parametrize("missing", [["pyarrow"], ["pyarrow", "polars"]])
def test_parquet_through_whichever_library_there_is(
    missing: list[str], saved: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    FRAME.to_parquet("x.parquet")
    found = refuse_backends(monkeypatch, missing)
    done = call("predict", saved, "x.parquet", "--json")
    assert done.json["labels"] == pellucid.load(saved).predict(X).tolist()
    assert found == [["polars", "pandas"][len(missing) - 1]]


def test_parquet_without_any_library_names_the_extra(
    saved: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    FRAME.to_parquet("x.parquet")
    refuse_backends(monkeypatch, ["pyarrow", "polars", "pandas"])
    done = call("predict", saved, "x.parquet")
    assert done.code == 2 and "pip install 'pellucid[arrow]'" in done.error


def refuse_backends(monkeypatch: pytest.MonkeyPatch, missing: list[str]) -> list[str]:
    import narwhals

    read, found = narwhals.read_parquet, []

    def read_parquet(path: str, *, backend: str) -> Any:
        if backend in missing:
            raise ModuleNotFoundError(backend)
        found.append(backend)
        return read(path, backend=backend)

    monkeypatch.setattr(narwhals, "read_parquet", read_parquet)
    return found


# What goes wrong -----------------------------------------------------------------------------


def broken_files() -> None:
    np.save("one.npy", X[:, 0])
    np.save("nan.npy", np.where(X > 0, X, np.nan))
    np.save("wide.npy", np.ones((5, 9), dtype=np.float32))
    np.save("words.npy", np.array([["a", object()]], dtype=object))
    np.savez("a.npz", first=X, second=X)
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:200])
    Path("empty.npy").write_bytes(b"")
    Path("zip.npz").write_bytes(b"PK\x03\x04 not really")
    Path("x.txt").write_text("1 2 3")
    Path("header.csv").write_text("a,b\n")
    Path("empty.csv").write_text("")
    Path("text.csv").write_text("a,b\nx,y\n")
    Path("hole.csv").write_text("a,b\n1,2\n3,\n")
    Path("no.parquet").write_bytes(b"PAR1 but not really")
    pd.DataFrame({"who": ["a", "b"]}).to_parquet("text.parquet")
    np.save("short.npy", Y[:5])
    np.save("square.npy", X)
    Path("two.csv").write_text("a,b\n1,2\n")


FIT = ["--out", "run"]
BAD_INPUT: list[tuple[list[str], str]] = [
    ([], "command"),
    (["dance"], "dance"),
    (["fit"], "required: data, out"),
    (["fit", "x.npy"], "required: out"),
    (["fit", "x.npy", *FIT, "--bogus", "1"], "unrecognized arguments: --bogus 1"),
    (["fit", "x.npy", *FIT, "--max_ite", "1"], "unrecognized arguments: --max_ite 1"),
    (["fit", "x.npy", *FIT, "-k", "many"], "--n_clusters: 'many' is not of type int"),
    (["fit", "x.npy", *FIT, "-k", "61"], "n_samples=60 should be >= n_clusters=61"),
    (["fit", "x.npy", *FIT, "--training.lr", "x"], "--training.lr: 'x' is not of type float"),
    (["fit", "x.npy", *FIT, "--training.speed", "1"], "--training.speed: there is no such option"),
    (["fit", "x.npy", *FIT, "--training.device", "cuda:9"], "cuda"),
    (["fit", "x.npy", *FIT, "--image_shape", "2,2"], "--image_shape: '2,2'.*written [1,2]"),
    (["fit", "x.npy", *FIT, "--autoencoder", "rnn"], "--autoencoder: 'rnn'.*'mlp'"),
    (["fit", "x.npy", *FIT, "--algorithm", "dance"], "--algorithm: 'dance'.*'tell'"),
    (["fit", "x.npy", *FIT, "--config", "no.yaml"], "no.yaml"),
    (["fit", "x.npy", *FIT, "--init", "dance"], "init='dance': use one of"),
    (["fit", "x.npy", "--out", "x.npy"], "x.npy is a file"),
    (["fit", "x.npy", "--out", "x.npy/run"], "x.npy/run cannot be written"),
    (["fit", "one.npy", *FIT], "Expected 2D array, got 1D array"),
    (["fit", "nan.npy", *FIT], "contains NaN.*row"),
    (["fit", "words.npy", *FIT], "words.npy is not a whole .npy file of numbers"),
    (["fit", "cut.npy", *FIT], "cut.npy is not a whole .npy file"),
    (["fit", "empty.npy", *FIT], "empty.npy is not a whole .npy file"),
    (["fit", "zip.npz", *FIT], "zip.npz is not a whole .npz file"),
    (["fit", "a.npz", *FIT], "a.npz has no array 'X', it has: first, second.*--key"),
    (["fit", "x.txt", *FIT], "x.txt: data has to be a .npy"),
    (["fit", "header.csv", *FIT], "header.csv has no rows with numbers"),
    (["fit", "empty.csv", *FIT], "empty.csv has no rows with numbers"),
    (["fit", "text.csv", *FIT], "text.csv has no rows with numbers"),
    (["fit", "hole.csv", *FIT], "hole.csv: .*row 1, column 2"),
    (["fit", "no.parquet", *FIT], "no.parquet is not a whole .parquet file"),
    (["fit", "text.parquet", *FIT], "text.parquet has no numeric columns, it has: who"),
    (["predict", "nowhere", "x.npy"], "nowhere is not a folder with a saved model"),
    (["predict", "MODEL", "nothing.npy"], "nothing.npy does not exist"),
    (["predict", "MODEL", "wide.npy"], "9 features.*4 features"),
    (["predict", "MODEL", "x.npy", "-o", "labels.txt"], "labels.txt: .*.csv or .npy"),
    (["predict", "MODEL", "x.npy", "-o", "no/labels.csv"], "no/labels.csv cannot be written"),
    (["transform", "MODEL", "x.npy"], "required: out"),
    (["evaluate", "MODEL", "x.npy", "--labels", "no.npy"], "no.npy does not exist"),
    (["evaluate", "MODEL", "x.npy", "--labels", "short.npy"], "short.npy has 5 labels.*60 rows"),
    (["evaluate", "MODEL", "x.npy", "--labels", "square.npy"], r"square.npy has shape (60, 4)"),
    (["evaluate", "MODEL", "x.npy", "--labels", "two.csv"], "two.csv has no column called label"),
    (["evaluate", "MODEL", "x.npy", "--labels", "x.txt"], "x.txt: labels have to be"),
    (["info", "."], "config.json is missing"),
]


@pytest.mark.parametrize(("words", "message"), BAD_INPUT, ids=lambda v: str(v)[:50])
def test_bad_input_is_one_line_and_exit_2(
    words: list[str], message: str, saved: Path, call: Any
) -> None:
    broken_files()
    done = call(*[str(saved) if word == "MODEL" else word for word in words])
    assert done.code == 2
    pattern = ".*".join(map(re.escape, message.split(".*")))
    assert re.search(pattern, done.error), done.error
    assert not Path("run").exists()


def test_work_that_fails_is_exit_1(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(self: TELL, X: Any) -> None:
        raise RuntimeError("the machine\n  is on fire")

    monkeypatch.setattr(TELL, "fit", fit)
    done = call("fit", "x.npy", "--out", "run")
    assert done.code == 1 and done.error == "RuntimeError: the machine is on fire"
    done = call("fit", "x.npy", "--out", "run", "--traceback")
    assert done.code == 1 and "Traceback (most recent call last)" in done.err


def test_interrupted_before_there_is_anything_to_keep(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(self: TELL, X: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TELL, "fit", fit)
    done = call("fit", "x.npy", "--out", "run")
    assert done.code == 130 and "nothing was saved" in done.err
    assert not Path("run").exists()


def test_a_result_is_written_whole_or_not_at_all(
    saved: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("l.csv").write_text("before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cli, "write_csv", full)
    done = call("predict", saved, "x.npy", "-o", "l.csv")
    assert done.code == 1 and "No space left" in done.error
    assert Path("l.csv").read_text() == "before"
    assert not list(Path().glob(".*"))


def test_a_reader_that_leaves_early_is_met_with_silence(
    saved: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: Any) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(cli, "write_csv", leave)
    monkeypatch.setattr(cli, "discard_stdout", lambda: None)
    done = call("predict", saved, "x.npy")
    assert done.code == 1 and done.err == ""


def test_the_callers_warning_filters_come_back(saved: Path, call: Any) -> None:
    before = list(warnings.filters), warnings.showwarning
    call("predict", saved, "x.npy")
    assert (list(warnings.filters), warnings.showwarning) == before


def test_main_reads_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pellucid", "--version"])
    with contextlib.redirect_stdout(None):
        assert cli.main() == 0


@pytest.mark.parametrize("rank", ["0", "1"])
def test_under_torchrun_the_first_process_writes(
    rank: str, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    done = call("fit", "x.npy", "-k", 3, "--out", "run", *QUICK)
    assert done.code == 0
    assert Path("run").exists() == (rank == "0") == bool(done.out)
