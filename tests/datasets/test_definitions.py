"""The built-in definitions."""

import torch

import wassloss as wl


def test_classes_and_their_names() -> None:
    data = wl.datasets.load_definitions()
    sizes = data.target.bincount()
    assert len(data.data) == len(data.words) == sizes.sum() == 55_897
    assert (len(sizes), int(sizes.min()) >= 60, int(sizes.max()) <= 400) == (339, True, True)
    assert not any("#" in name or "_" in name for path in data.paths for name in path)
    assert data.metric.labels is not None
    assert data.target_names == data.metric.labels == tuple(path[-1] for path in data.paths)


def test_near_classes_are_alike() -> None:
    metric = wl.datasets.load_definitions().metric
    assert metric.nearest("craft", 1)[0][0] == "wheeled vehicle"
    distance = metric.distance()
    assert torch.equal(distance, distance.round())
    assert (float(distance.max()), metric.median_cost()) == (10, 9)


def test_a_definition() -> None:
    data = wl.datasets.load_definitions()
    place = data.words.index("punt")
    assert data.data[place].startswith("an open flat-bottomed boat")
    assert data.paths[data.target[place]][-2:] == ("vehicle", "craft")
