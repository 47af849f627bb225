"""Pruning: random, by norms, structured, global, own methods, iterated; masks in the state dict; made permanent."""

import argparse

import torch
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(8)


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.conv2 = nn.Conv2d(4, 6, 3)
        self.fc1 = nn.Linear(6 * 2 * 2, 10)
        self.fc2 = nn.Linear(10, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.relu(self.conv2(x))
        x = x.view(-1, int(x.nelement() / x.shape[0]))
        return self.fc2(F.relu(self.fc1(x)))


class EveryOther(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone()
        mask.view(-1)[::2] = 0
        return mask


def every_other(module, name):
    EveryOther.apply(module, name)
    return module


model = LeNet()
x, target = torch.randn(12, 1, 10, 10), torch.arange(12) % 3
module = model.conv1
prune.random_unstructured(module, name="weight", amount=0.3)
prune.l1_unstructured(module, name="bias", amount=1)
prune.ln_structured(module, name="weight", amount=0.5, n=2, dim=0)
print(sorted(name for name, _ in module.named_parameters()), sorted(name for name, _ in module.named_buffers()))
print([type(hook).__name__ for hook in module._forward_pre_hooks.values()])
every_other(model.fc2, name="bias")
prune.global_unstructured(
    ((model.conv2, "weight"), (model.fc1, "weight")), pruning_method=prune.L1Unstructured, amount=0.2
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


if args.compile:
    step = torch.compile(step)

for i in range(4):
    print(f"loss {step().item():.6f}")
for name, layer in model.named_modules():
    if hasattr(layer, "weight"):
        zeros = 100.0 * float(torch.sum(layer.weight == 0)) / float(layer.weight.nelement())
        print(f"Sparsity in {name}.weight: {zeros:.2f}% pruned {prune.is_pruned(layer)}")
print(sorted(model.state_dict())[:4])
prune.remove(module, "weight")
prune.remove(module, "bias")
print(sorted(name for name, _ in module.named_parameters()), list(module._forward_pre_hooks))
print(f"after {F.cross_entropy(model(x), target).item():.6f}")
