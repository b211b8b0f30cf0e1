"""Downloads, from a server of our own: checked, resumed, and clean after a failure."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from wassloss import data
from wassloss.data import _fetch, downloads
from wassloss.data.downloads import Download

pytest.importorskip("pooch")
CONTENT = bytes(range(256)) * 200
WRONG = "0" * 32


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT at any address, in the ways that servers have."""

    asked: list[str | None]  # the Range of each request
    content = CONTENT
    cut: int | None = None  # the connection breaks after so many bytes
    knows_range = True
    says_length = True
    shift = 0  # of where it begins, for a server that is wrong
    missing = False

    def do_GET(self) -> None:
        span = self.headers.get("Range")
        self.asked.append(span)
        if self.missing:
            self.send_error(404)
            return
        start = 0
        if span and self.knows_range:
            start = int(span.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.content):
                self.send_error(416)
                return
            self.send_response(206)
            first = start + self.shift
            last, total = len(self.content) - 1, len(self.content)
            self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        else:
            self.send_response(200)
        body = self.content[start:]
        if self.says_length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.cut])

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Server]]:
    handler = type("Handler", (Server,), {"asked": []})
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
        monkeypatch.setattr(_fetch, "_BLOCK", 1000)
        yield handler
        http.shutdown()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def cut_off(server: type[Server], after: int = 10_000) -> None:
    """A first try, whose connection breaks."""
    server.cut = after
    with pytest.raises(OSError, match=rf"broke after {after} of {len(CONTENT)} bytes; {after} byt"):
        data.get("toy")
    server.cut = None


def test_downloaded_once(server: type[Server], tmp_path: Path) -> None:
    told: list[tuple[int, int | None]] = []
    path = tmp_path / "toy" / "a.gz"
    assert data.get("toy", progress=lambda *now: told.append(now)) == [path]
    assert path.read_bytes() == CONTENT
    assert told[0] == (1000, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    data.get("toy")
    assert server.asked == [None]
    path.write_bytes(b"damaged")  # noticed, and fetched again
    data.get("toy")
    assert path.read_bytes() == CONTENT
    assert files(tmp_path) == ["a.gz"]


def test_resumed(server: type[Server], tmp_path: Path) -> None:
    cut_off(server)
    (left,) = files(tmp_path)  # and nothing that could be taken for the file
    assert left.startswith(".a.gz.")
    assert left.endswith(".partial")
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=10000-"]
    assert files(tmp_path) == ["a.gz"]


def test_interrupted_by_the_user(server: type[Server], tmp_path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        if done >= 5000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        data.get("toy", progress=stop)
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=5000-"]


def test_a_server_without_range_begins_anew(server: type[Server], tmp_path: Path) -> None:
    cut_off(server)
    server.knows_range = False
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=10000-"]
    assert files(tmp_path) == ["a.gz"]


def test_another_beginning_is_noticed(server: type[Server], tmp_path: Path) -> None:
    server.content = bytes(len(CONTENT))
    cut_off(server)
    server.content = CONTENT
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=10000-", None]


@pytest.mark.parametrize("extra", [b"", b"too much"])
def test_a_part_with_nothing_left_to_ask_for(
    server: type[Server], tmp_path: Path, extra: bytes
) -> None:
    cut_off(server)
    next((tmp_path / "toy").iterdir()).write_bytes(CONTENT + extra)
    assert data.get("toy")[0].read_bytes() == CONTENT
    assert files(tmp_path) == ["a.gz"]


def test_a_server_that_sends_other_bytes(server: type[Server], tmp_path: Path) -> None:
    cut_off(server)
    server.shift = 1
    with pytest.raises(OSError, match="asked for bytes from 10000 and sent others; 10000 bytes"):
        data.get("toy")
    server.shift = 0
    assert data.get("toy")[0].read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(server: type[Server], tmp_path: Path) -> None:
    found = hashlib.md5(CONTENT).hexdigest()
    with pytest.raises(OSError, match=f"not the file that was expected: .* {found}, not {WRONG}"):
        data.get("bad")
    assert files(tmp_path) == []


def test_a_length_that_is_not_said(server: type[Server], tmp_path: Path) -> None:
    """A break is then only told by the checksum."""
    server.says_length, server.cut = False, 10_000
    with pytest.raises(OSError, match="not the file that was expected"):
        data.get("toy")
    server.cut = None
    assert data.get("toy")[0].read_bytes() == CONTENT


def test_what_is_not_there(server: type[Server], tmp_path: Path) -> None:
    server.missing = True
    with pytest.raises(OSError, match=r"a.gz could not be downloaded to .*404"):
        data.get("toy")
    assert files(tmp_path) == []


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="name must be one of glove, word2vec, got 'nope'"):
        data.get("nope")
