"""The clip art that ships, against what its datasheet says."""

import torch

import wassloss as wl

DATA = wl.datasets.load_clipart()


def test_clipart_is_what_its_datasheet_says() -> None:
    assert DATA.data.shape == (3159, 256)
    assert DATA.data.dtype == torch.float32
    assert len(DATA.target_names) == 206
    assert (len(DATA.train), len(DATA.test)) == (2218, 941)
    assert torch.equal(torch.cat([DATA.train, DATA.test]).sort().values, torch.arange(3159))
    used = DATA.target.weights > 0
    assert round(used.sum(1).double().mean().item(), 1) == 2.4
    torch.testing.assert_close(DATA.target.weights.sum(1), torch.ones(3159))
    assert DATA.metric.labels == DATA.target_names
    assert (torch.bincount(DATA.target.indices[used], minlength=206) < 10).sum() == 71
    mammal, animal = (DATA.target_names.index(tag) for tag in ("mammal", "animal"))
    has = [((DATA.target.indices == tag) & used).any(1) for tag in (mammal, animal)]
    assert (int(has[0].sum()), int((has[0] & has[1]).sum())) == (116, 72)


def test_no_group_crosses_the_split() -> None:
    train, test = (set(DATA.groups[rows].tolist()) for rows in (DATA.train, DATA.test))
    assert not train & test


def test_features_and_tags_belong_together() -> None:
    """Ridge regression finds a right tag first for half of the test drawings (datasheet: .51)."""
    Y = (DATA.target.dense(206) > 0).float()
    X = torch.cat([DATA.data, torch.ones(3159, 1)], 1)
    gram = X[DATA.train].T @ X[DATA.train] + 300 * torch.eye(257)
    weights = torch.linalg.solve(gram, X[DATA.train].T @ Y[DATA.train])
    first = (X[DATA.test] @ weights).argmax(1)
    assert Y[DATA.test, first].mean() > 0.48
    popular = Y[DATA.train].sum(0).argmax()
    assert Y[DATA.test, popular].mean() < 0.16


def test_it_feeds_the_loss_and_the_estimator() -> None:
    rows = DATA.train[:8]
    loss = wl.WassersteinLoss(DATA.metric, kl_weight=0.1, normalize_cost=False)
    assert loss(torch.zeros(8, 206), DATA.target[rows]).isfinite()
    fitted = wl.WassersteinClassifier(DATA.metric, tol=0.1)
    fitted.fit(DATA.data[rows], DATA.target[rows].dense(206).numpy())
    assert set(fitted.predict(DATA.data[rows])) <= set(DATA.target_names)
