"""What is written to a log: summaries of numbers, histograms, images and texts, as TensorBoard's messages.

Owns: making them. Must not know: files.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from jitgrad.lazy import LazyModule
from jitgrad.tensor import Tensor

__all__ = ["as_array", "histogram_summary", "image_summary", "pixels_of", "scalar_summary", "text_summary"]

_summaries = LazyModule("tensorboard.compat.proto.summary_pb2")
_tensors = LazyModule("tensorboard.compat.proto.tensor_pb2")
_shapes = LazyModule("tensorboard.compat.proto.tensor_shape_pb2")


def as_array(x: Any) -> Any:
    """A tensor, an array, a list or a number as an array."""
    return x.detach().cpu().numpy() if isinstance(x, Tensor) else np.asarray(x)


def scalar_summary(tag: str, value: Any) -> Any:
    """One number. ValueError for more."""
    array = as_array(value)
    if array.size != 1:
        raise ValueError(f"scalar should be one number, but has shape {array.shape}")
    return _summaries.Summary(value=[_summaries.Summary.Value(tag=tag, simple_value=float(array.reshape(())))])


def _usual_bins() -> Any:
    """TensorFlow's: each limit 1.1 times the one before, from 1e-12 to 1e20, of both signs."""
    positive = 1e-12 * 1.1 ** np.arange(np.ceil(np.log(1e32) / np.log(1.1)))
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram_summary(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """Counts between limits.

    Args:
        tag: the name.
        values: any shape.
        bins: "tensorflow", or what ``numpy.histogram`` takes.
        max_bins: neighbours are joined until there are no more than these.

    Raises:
        ValueError: there are no values.
    """
    flat = as_array(values).reshape(-1).astype(np.float64)
    if not flat.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(flat, _usual_bins() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and counts.size > max_bins:
        joined = counts.size // max_bins
        missing = -counts.size % joined
        counts = np.pad(counts, (0, missing)).reshape(-1, joined).sum(1)
        limits = np.append(limits[:-1][::joined], limits[-1])
    there = np.flatnonzero(counts)
    if not there.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    # one empty bucket before the first: TensorBoard draws from its limit
    first, last = there[0], there[-1] + 1
    buckets, ends = counts[first:last].tolist(), limits[first + 1 : last + 1].tolist()
    message = _summaries.HistogramProto(
        min=float(flat.min()), max=float(flat.max()), num=int(flat.size), sum=float(flat.sum()),
        sum_squares=float(flat @ flat), bucket_limit=[float(limits[first]), *ends], bucket=[0.0, *map(float, buckets)],
    )  # fmt: skip
    return _summaries.Summary(value=[_summaries.Summary.Value(tag=tag, histo=message)])


def pixels_of(image: Any, dataformats: str) -> Any:
    """An image as (H, W, 3) bytes; floating ones are in [0, 1]. Several ("N") stand side by side.

    Raises:
        ValueError: for formats that do not name each dimension once.
    """
    array, formats = as_array(image), dataformats.upper()
    if len(set(formats)) != len(formats) or array.ndim != len(formats) or not {"H", "W"} <= set(formats):
        raise ValueError(f"size of input tensor and input format are different: {array.shape} and {dataformats}")
    if array.dtype.kind == "f":
        array = np.clip(array * 255.0, 0, 255)
    array = array.astype(np.uint8)
    for missing in (axis for axis in "NCHW" if axis not in formats):
        array, formats = array[None], missing + formats
    array = array.transpose([formats.index(axis) for axis in "NHWC"])
    if array.shape[3] == 1:
        array = np.repeat(array, 3, 3)
    return np.concatenate(list(array), 1)


def _png(pixels: Any) -> bytes:
    """(H, W, 3 or 4) bytes as a PNG file (RFC 2083)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, channels = pixels.shape
    head = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 6, 0, 0, 0)
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def image_summary(tag: str, pixels: Any) -> Any:
    """(H, W, 3 or 4) bytes."""
    height, width, channels = pixels.shape
    image = _summaries.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=_png(np.ascontiguousarray(pixels))
    )
    return _summaries.Summary(value=[_summaries.Summary.Value(tag=tag, image=image)])


def text_summary(tag: str, text: str) -> Any:
    """A text, in Markdown."""
    plugin = _summaries.SummaryMetadata.PluginData(plugin_name="text")
    shape = _shapes.TensorShapeProto(dim=[_shapes.TensorShapeProto.Dim(size=1)])
    content = _tensors.TensorProto(dtype="DT_STRING", string_val=[text.encode()], tensor_shape=shape)
    metadata = _summaries.SummaryMetadata(plugin_data=plugin)
    value = _summaries.Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=content)
    return _summaries.Summary(value=[value])
