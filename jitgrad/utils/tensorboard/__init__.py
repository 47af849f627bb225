"""Logs for TensorBoard, as ``torch.utils.tensorboard``: needs the package tensorboard."""

from jitgrad.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
