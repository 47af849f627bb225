"""Automatic mixed precision on a CPU: autocast to bfloat16, a GradScaler that may be off, accumulation and clipping."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(0)

device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = True
data = [torch.randn(16, 12, device=device) for _ in range(6)]
targets = [x.pow(2).sum(1, keepdim=True).tanh() for x in data]
loss_fn = torch.nn.MSELoss().to(device)


def make_model(in_size, out_size, num_layers):
    layers = []
    for _ in range(num_layers - 1):
        layers.append(torch.nn.Linear(in_size, in_size))
        layers.append(torch.nn.ReLU())
    layers.append(torch.nn.Linear(in_size, out_size))
    return torch.nn.Sequential(*tuple(layers))


net = make_model(12, 1, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
scaler = torch.amp.GradScaler(device, enabled=use_amp and device == "cuda")


def step(input, target, update):
    with torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=use_amp):
        output = net(input)
        assert output.dtype is torch.bfloat16
        loss = loss_fn(output.float(), target)
    scaler.scale(loss / 2).backward()
    if update:
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=0.1)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad(set_to_none=True)
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(3):
    for i, (input, target) in enumerate(zip(data, targets)):
        loss = step(input, target, i % 2 == 1)
        assert loss.dtype is torch.float32
    print(f"epoch {epoch} loss {loss.item():.3f}")

checkpoint = {"model": net.state_dict(), "optimizer": opt.state_dict(), "scaler": scaler.state_dict()}
print(sorted(checkpoint), scaler.is_enabled(), scaler.get_scale(), checkpoint["scaler"])
scaler.load_state_dict(checkpoint["scaler"])
with torch.autocast("cpu", dtype=torch.bfloat16):
    a, b = torch.ones(2, 2), torch.ones(2, 2)
    print((a @ b).dtype, (a + b).dtype, torch.softmax(a @ b, 0).dtype, torch.get_autocast_dtype("cpu"))
    with torch.autocast("cpu", enabled=False):
        print((a @ b).dtype)
