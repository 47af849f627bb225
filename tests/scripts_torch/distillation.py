"""Knowledge distillation: a teacher that is frozen, temperature, KL divergence plus the labels' cross entropy."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("-T", "--temperature", type=float, default=4.0)
parser.add_argument("--alpha", type=float, default=0.7)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(77)

x = torch.randn(96, 8)
labels = (x[:, :4].pow(2).sum(1) > x[:, 4:].pow(2).sum(1)).long() + (x[:, 0] > 1).long()
teacher = nn.Sequential(nn.Linear(8, 32), nn.SELU(), nn.AlphaDropout(0.05), nn.Linear(32, 32), nn.SELU(), nn.Linear(32, 3))
student = nn.Sequential(nn.Linear(8, 6), nn.Mish(), nn.Linear(6, 3))
teacher_optimizer = optim.Adamax(teacher.parameters(), lr=2e-2)
student_optimizer = optim.RAdam(student.parameters(), lr=2e-2)


def teach(xb, yb):
    teacher_optimizer.zero_grad()
    loss = F.cross_entropy(teacher(xb), yb)
    loss.backward()
    teacher_optimizer.step()
    return loss


def loss_fn_kd(outputs, labels, teacher_outputs):
    T, alpha = args.temperature, args.alpha
    return nn.KLDivLoss(reduction="batchmean")(
        F.log_softmax(outputs / T, dim=1), F.softmax(teacher_outputs / T, dim=1)
    ) * (alpha * T * T) + F.cross_entropy(outputs, labels) * (1.0 - alpha)


def distill(xb, yb):
    student_optimizer.zero_grad()
    with torch.no_grad():
        teacher_outputs = teacher(xb)
    loss = loss_fn_kd(student(xb), yb, teacher_outputs)
    loss.backward()
    student_optimizer.step()
    return loss


if args.compile:
    teach, distill = torch.compile(teach), torch.compile(distill)

for i in range(20):
    index = torch.randperm(96)[:32]
    print(f"teacher {i} loss {teach(x[index], labels[index]).item():.6f}")
teacher.eval()
for p in teacher.parameters():
    p.requires_grad = False
before = [p.clone() for p in teacher.parameters()]
for i in range(20):
    index = torch.randperm(96)[:32]
    print(f"student {i} loss {distill(x[index], labels[index]).item():.6f}")
print("teacher unchanged:", all(torch.equal(a, b) for a, b in zip(before, teacher.parameters())))
agreement = (teacher(x).argmax(1) == student(x).argmax(1)).float().mean()
print(f"agreement {agreement.item():.4f}")
