"""Early stopping with checkpoints on disk, a resumed run that goes on exactly, parameter groups, plateau schedules."""

import argparse
import copy
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--patience", type=int, default=2)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(11)

x = torch.randn(60, 6)
y = (x[:, :2].sum(1) + 0.5 * torch.randn(60) > 0).float()
x_train, y_train, x_valid, y_valid = x[:40], y[:40], x[40:], y[40:]


class EarlyStopping:
    def __init__(self, patience, path):
        self.patience, self.path, self.best, self.counter, self.early_stop = patience, path, None, 0, False

    def __call__(self, loss, state):
        if self.best is None or loss < self.best - 1e-4:
            self.best, self.counter = loss, 0
            torch.save(state, self.path)
            return True
        self.counter += 1
        self.early_stop = self.counter >= self.patience
        return False


def build():
    model = nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Dropout(0.2), nn.Linear(16, 1))
    for p in model[0].parameters():
        p.no_decay = True
    decay = [p for p in model.parameters() if not getattr(p, "no_decay", False)]
    plain = [p for p in model.parameters() if getattr(p, "no_decay", False)]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0, "lr": 0.05}]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    return model, optimizer, scheduler


def make_step(model, optimizer):
    def step():
        model.train()
        optimizer.zero_grad(set_to_none=True)
        loss = F.binary_cross_entropy_with_logits(model(x_train).squeeze(-1), y_train)
        loss.backward()
        optimizer.step()
        return loss

    return torch.compile(step) if args.compile else step


@torch.inference_mode()
def evaluate(model):
    model.eval()
    logits = model(x_valid).squeeze(-1)
    accuracy = ((logits > 0) == y_valid.bool()).float().mean().item()
    return F.binary_cross_entropy_with_logits(logits, y_valid).item(), accuracy


with tempfile.TemporaryDirectory() as folder:
    model, optimizer, scheduler = build()
    path = os.path.join(folder, "best.pt")
    stopping, step = EarlyStopping(args.patience, path), make_step(model, optimizer)
    for epoch in range(12):
        loss = step()
        valid, accuracy = evaluate(model)
        scheduler.step(valid)
        state = {
            "epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(), "rng": torch.get_rng_state(),
        }
        saved = stopping(valid, copy.deepcopy(state))
        rates = [group["lr"] for group in optimizer.param_groups]
        print(f"{epoch} train {loss.item():.5f} valid {valid:.5f} acc {accuracy:.3f} saved {saved} lr {rates}")
        if stopping.early_stop:
            print("Early stopping")
            break
    checkpoint = torch.load(path, weights_only=True)
    again, optimizer, scheduler = build()
    again.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    step = make_step(again, optimizer)
    print("resumed from", checkpoint["epoch"], f"{evaluate(again)[0]:.5f}", f"{step().item():.5f}", f"{evaluate(again)[0]:.5f}")
    print(sorted(os.listdir(folder)), optimizer.param_groups[1]["lr"], scheduler.best < 1)
