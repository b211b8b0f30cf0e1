"""Downloads from a server of our own: checked, repeated after a failure, and never half there."""

import hashlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from wassloss import data
from wassloss.data import downloads
from wassloss.data.downloads import Download

pytest.importorskip("pooch")
CONTENT = bytes(range(256)) * 200
WRONG = "0" * 32


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT at any address, in the ways that servers have."""

    asked: list[str]
    cuts: list[int]  # the bytes after which the connection breaks, for the first requests
    says_length = True
    missing = False

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.missing:
            self.send_error(404)
            return
        self.send_response(200)
        if self.says_length:
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: self.cuts.pop() if self.cuts else None])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    handler = type("Handler", (Server,), {"asked": [], "cuts": []})
    with HTTPServer(("127.0.0.1", 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{http.server_port}/"
        good = hashlib.sha256(CONTENT).hexdigest()
        toy = Download(url, {"a.gz": f"sha256:{good}"}, "made up")
        bad = Download(url, {"b.gz": f"md5:{WRONG}"}, "made up")
        monkeypatch.setitem(downloads.DOWNLOADS, "toy", toy)
        monkeypatch.setitem(downloads.DOWNLOADS, "bad", bad)
        monkeypatch.setenv("WASSLOSS_DATA", str(tmp_path))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between attempts
        yield handler
        http.shutdown()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_downloaded_once(
    server: type[Server], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "toy" / "a.gz"
    assert data.get("toy") == [path]
    assert path.read_bytes() == CONTENT
    data.get("toy")
    assert server.asked == ["/a.gz"]
    path.write_bytes(b"damaged")  # noticed, and downloaded again
    data.get("toy")
    assert path.read_bytes() == CONTENT
    assert files(tmp_path) == ["a.gz"]
    assert capfd.readouterr() == ("", "")


def test_a_progress_bar(server: type[Server], capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    data.get("toy", progress=True)
    assert "100%" in capfd.readouterr().err


@pytest.mark.parametrize("says_length", [True, False])
def test_a_broken_connection_is_tried_again(
    server: type[Server], tmp_path: Path, says_length: bool
) -> None:
    server.says_length, server.cuts = says_length, [10_000]
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert len(server.asked) == 2
    assert files(tmp_path) == ["a.gz"]


def test_a_connection_that_always_breaks_leaves_nothing(
    server: type[Server], tmp_path: Path
) -> None:
    server.cuts = [10_000] * 9
    with pytest.raises(OSError, match=r"could not be downloaded to .*toy: ") as caught:
        data.get("toy")
    assert "\n" not in str(caught.value)
    assert len(server.asked) == 3
    assert files(tmp_path) == []


def test_wrong_checksum_leaves_nothing(server: type[Server], tmp_path: Path) -> None:
    found = hashlib.md5(CONTENT).hexdigest()
    with pytest.raises(OSError, match=f"could not be downloaded .*expected md5:{WRONG}.*{found}"):
        data.get("bad")
    assert files(tmp_path) == []


def test_what_is_not_there(server: type[Server], tmp_path: Path) -> None:
    server.missing = True
    with pytest.raises(OSError, match=r"could not be downloaded to .*404"):
        data.get("toy")
    assert files(tmp_path) == []


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="name must be one of glove, word2vec, got 'nope'"):
        data.get("nope")
