"""Stochastic weight averaging and an exponential moving average of the weights, with batch-norm statistics anew."""

import argparse

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(4)

x = torch.randn(80, 5)
y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(80, 1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(5, 20), nn.BatchNorm1d(20), nn.Softplus(), nn.Linear(20, 1))
loss_fn = nn.HuberLoss(delta=0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
swa_model = AveragedModel(model)
ema_model = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
swa_start = 2
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)


def step(input, target):
    optimizer.zero_grad()
    loss = loss_fn(model(input), target)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for epoch in range(4):
    for input, target in loader:
        loss = step(input, target)
        ema_model.update_parameters(model)
        print(f"epoch {epoch} loss {loss.item():.6f}")
    if epoch > swa_start:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
    print(f"lr {optimizer.param_groups[0]['lr']:.6f}")

update_bn(loader, swa_model)
update_bn(loader, ema_model)
for name, averaged in (("model", model), ("swa", swa_model), ("ema", ema_model)):
    averaged.eval()
    with torch.no_grad():
        print(name, f"{loss_fn(averaged(x), y).item():.6f}")
print("averaged", swa_model.n_averaged.item(), ema_model.n_averaged.item())
