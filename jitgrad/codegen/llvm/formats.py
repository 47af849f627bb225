"""What goes from process to process: files of the object cache, requests to builders and their answers.

Owns: the layouts of these, and what makes a file whole.
Must not know: where files are; the rest of jitgrad: a process beside this one runs this file, too, Note [Builders].
"""

from __future__ import annotations

import hashlib
import struct

__all__ = ["ANSWER", "REQUEST", "entry", "file_name", "payload_of"]

_HEADER = struct.Struct("<8sI32sQ32s")  # magic, version, key digest, payload length, checksum
_MAGIC = b"JITGRAD\0"
_VERSION = 1
_SUFFIX = ".obj"

REQUEST = struct.Struct("<QQ?32s")
"""Its number, the length of the compressed text that follows, whether it needs passes, the key digest."""
ANSWER = struct.Struct("<QQ?")
"""The request's number, the length of what follows, whether that is object code: else it is what LLVM says."""


def file_name(digest: bytes) -> str:
    """Of the file for a key digest."""
    return digest.hex() + _SUFFIX


def _checksum(digest: bytes, payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=32, key=digest).digest()


def entry(digest: bytes, payload: bytes) -> bytes:
    """The contents of the file that keeps ``payload`` under a key digest of 32 bytes."""
    return _HEADER.pack(_MAGIC, _VERSION, digest, len(payload), _checksum(digest, payload)) + payload


def payload_of(digest: bytes, data: bytes) -> bytes | None:
    """The payload of a file's contents; None if they are not whole, or belong to another key."""
    if len(data) < _HEADER.size:
        return None
    magic, version, key, length, checksum = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if (magic, version, key, length) != (_MAGIC, _VERSION, digest, len(payload)):
        return None
    return payload if checksum == _checksum(digest, payload) else None
