"""Weights of training examples learnt from a clean validation set: a gradient through unrolled updates."""

import argparse

import torch
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--unroll", type=int, default=3)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
gen = torch.Generator()
gen.manual_seed(123)

n, d = 40, 5
true_w = torch.randn(d, generator=gen)
x_train = torch.randn(n, d, generator=gen)
y_train = (x_train @ true_w > 0).float()
corrupted = torch.rand(n, generator=gen) < 0.3
y_train = torch.where(corrupted, 1 - y_train, y_train)
x_val = torch.randn(n, d, generator=gen)
y_val = (x_val @ true_w).gt(0).to(torch.float32)

example_logits = torch.zeros(n, requires_grad=True)
log_l2 = torch.full((), -4.0, requires_grad=True)
outer = torch.optim.SGD([example_logits, log_l2], lr=2.0, momentum=0.5)
w = torch.zeros(d)


def inner_loss(w):
    weights = torch.sigmoid(example_logits)
    losses = F.binary_cross_entropy_with_logits(x_train @ w, y_train, reduction="none")
    return (weights * losses).sum() / weights.sum() + log_l2.exp() * w.dot(w)


def outer_step(w):
    outer.zero_grad()
    w = w.detach().requires_grad_()
    for _ in range(args.unroll):
        (g,) = torch.autograd.grad(inner_loss(w), w, create_graph=True)
        w = w - 0.5 * g
    val_loss = F.binary_cross_entropy_with_logits(x_val @ w, y_val)
    val_loss.backward()
    outer.step()
    return val_loss, w


if args.compile:
    outer_step = torch.compile(outer_step)

for t in range(20):
    val_loss, w = outer_step(w)
    weights = example_logits.sigmoid()
    print(f"outer {t:2d} val loss {val_loss.item():.6f} clean {weights[~corrupted].mean().item():.6f}"
          f" corrupted {weights[corrupted].mean().item():.6f} l2 {log_l2.exp().item():.6f}")
hessian = torch.autograd.functional.hessian(inner_loss, w.detach())
print("Hessian is positive:", bool((torch.linalg.eigvalsh(hessian) > 0).all()), tuple(hessian.shape))
