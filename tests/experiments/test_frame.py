import json

import numpy as np
import pytest

from experiments import registry
from experiments.lab.cache import Cache
from experiments.lab.compact_json import write_json
from experiments.lab.intervals import mean_interval, slope_interval
from experiments.run import load_result, reproduce, run_experiment
from tests.experiments.tiny import SETTINGS


def test_finished_parts_are_not_computed_again(tmp_path) -> None:
    calls = []

    def compute():
        calls.append(1)
        return {"a": (1, 2)}

    first = Cache(tmp_path, key={"n": (1, 2)}).part("one", compute)
    again = Cache(tmp_path, key={"n": [1, 2]})
    assert first == again.part("one", compute) == {"a": [1, 2]}
    assert len(calls) == 1
    assert again.seconds["one"] >= 0
    Cache(tmp_path, key={"n": (1, 3)}).part("one", compute)
    assert len(calls) == 2, "other settings are other parts"


def test_a_damaged_part_is_computed_again(tmp_path) -> None:
    cache = Cache(tmp_path, key=1)
    cache.part("one", lambda: 5)
    (tmp_path / "one.json").write_text("{", encoding="utf-8")
    assert cache.part("one", lambda: 6) == 6


def test_a_run_that_was_stopped_goes_on(tmp_path, monkeypatch) -> None:
    from experiments.figures import bound

    experiment, settings = registry.EXPERIMENTS["bound"], SETTINGS["bound"]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    whole = run_experiment(experiment, tmp_path / "a", settings=settings)
    real, done = bound._of_size, []

    def stops_at_the_second(n, *rest):
        if done:
            raise KeyboardInterrupt
        done.append(n)
        return real(n, *rest)

    monkeypatch.setattr(bound, "_of_size", stops_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "b", settings=settings)
    assert not (tmp_path / "b" / "bound.json").exists()

    def only_the_second(n, *rest):
        if n in done:
            raise RuntimeError("a finished part was computed again")
        return real(n, *rest)

    monkeypatch.setattr(bound, "_of_size", only_the_second)
    rest = run_experiment(experiment, tmp_path / "b", settings=settings)
    assert rest["found"] == whole["found"]


def test_json_is_written_whole_or_not_at_all(tmp_path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_other_json_is_refused(tmp_path) -> None:
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="python -m experiments"):
        load_result(tmp_path / "a.json")


def test_an_unknown_name_is_refused_with_those_there_are(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"lattice, .*frontier.*, got 'latice'"):
        reproduce("latice", tmp_path)


def test_without_data_all_leaves_it_out_and_a_name_is_an_error(
    tmp_path, monkeypatch, request
) -> None:
    monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "nothing"))
    mnist = registry.EXPERIMENTS["mnist"]
    everything = dict(registry.EXPERIMENTS)
    registry.EXPERIMENTS.clear()
    registry.EXPERIMENTS["mnist"] = mnist
    # Restore all experiments, in their order.
    request.addfinalizer(lambda: registry.EXPERIMENTS.update(everything))
    request.addfinalizer(registry.EXPERIMENTS.clear)
    lines: list[str] = []
    assert reproduce("all", tmp_path / "out", say=lines.append) == {}
    assert any("mnist: skipped" in line for line in lines)
    assert (tmp_path / "out" / "index.html").is_file()
    with pytest.raises(FileNotFoundError, match=r"mnist"):
        reproduce(mnist.name, tmp_path / "out")


def test_every_experiment_says_what_it_tests() -> None:
    for name, experiment in registry.EXPERIMENTS.items():
        assert experiment.name == name
        assert experiment.title
        assert experiment.claim
        assert experiment.figure
        assert type(experiment.quick) is type(experiment.full)


def test_intervals_against_known_ones() -> None:
    mean, low, high = mean_interval([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    # t quantile of 3 degrees of freedom 3.1824, standard error 0.6455
    assert (low, high) == pytest.approx((2.5 - 2.0543, 2.5 + 2.0543), abs=1e-3)
    assert np.isnan(mean_interval([3.0])[1:]).all()  # one value gives no interval
    slope = slope_interval([0, 1, 2, 3], [1, 3, 5, 7])
    assert slope == pytest.approx((2.0, 2.0, 2.0))
