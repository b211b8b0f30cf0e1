"""Downloads, from a server of our own: checked, and clean after a failure."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from wassloss import data
from wassloss.data import downloads
from wassloss.data.downloads import DOWNLOADS, Download

pytest.importorskip("pooch")
CONTENT = b"bytes of a file" * 1000


class Server(BaseHTTPRequestHandler):
    requests: list[str]
    cut = False

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:100] if self.cut else CONTENT)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    handler = type("Handler", (Server,), {"requests": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/"
        good = hashlib.sha256(CONTENT).hexdigest()
        monkeypatch.setitem(
            downloads.DOWNLOADS, "toy", Download(url, {"a.gz": f"sha256:{good}"}, "made up")
        )
        monkeypatch.setitem(
            downloads.DOWNLOADS, "bad", Download(url, {"b.gz": f"md5:{'0' * 32}"}, "made up")
        )
        monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield handler
        http.shutdown()


def test_downloaded_once(server: type[Server], tmp_path: Path) -> None:
    assert data.get("toy") == [tmp_path / "toy" / "a.gz"]
    assert (tmp_path / "toy" / "a.gz").read_bytes() == CONTENT
    data.get("toy")
    assert len(server.requests) == 1
    (tmp_path / "toy" / "a.gz").write_bytes(b"damaged")  # noticed, and fetched again
    data.get("toy")
    assert (tmp_path / "toy" / "a.gz").read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(server: type[Server], tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"b.gz could not be downloaded to .*hash"):
        data.get("bad")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_cut_short_and_tried_again(server: type[Server], tmp_path: Path) -> None:
    server.cut = True
    with pytest.raises(OSError, match=r"a.gz could not be downloaded"):
        data.get("toy")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    server.cut = False
    assert data.get("toy")[0].read_bytes() == CONTENT


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="name must be one of mnist, got 'glove'"):
        data.get("glove")


def test_what_is_downloaded_is_what_the_loader_looks_for() -> None:
    parts = [f"{p}-{n}-ubyte.gz" for p in ("train", "t10k") for n in ("images-idx3", "labels-idx1")]
    assert list(DOWNLOADS["mnist"].files) == parts
