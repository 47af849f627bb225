import torch
import torch_optimizer as to
from ema_pytorch import EMA
from lion_pytorch import Lion
from torch_ema import ExponentialMovingAverage

for name in [
    "RAdam",
    "Lamb",
    "AdaBound",
    "DiffGrad",
    "Yogi",
    "NovoGrad",
    "SWATS",
    "QHAdam",
    "Adafactor",
    "AccSGD",
    "AdaMod",
    "AggMo",
    "PID",
    "Shampoo",
    "SGDW",
    "A2GradExp",
    "MADGRAD",
    "AdamP",
    "SGDP",
    "Apollo",
    "Adahessian",
    "Ranger",
    "RangerQH",
    "RangerVA",
    "Lion",
]:
    torch.manual_seed(0)
    m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    try:
        o = (
            Lion(m.parameters(), lr=1e-3)
            if name == "Lion"
            else getattr(to, name)(m.parameters(), **({} if name in ("Adafactor",) else dict(lr=1e-2)))
        )
        for i in range(5):
            o.zero_grad()
            l = (m(x) - y).pow(2).mean()
            l.backward(create_graph=name == "Adahessian")
            o.step()
        print(name, l.item())
    except Exception as e:
        print(name, type(e).__name__, e)
torch.manual_seed(0)
m = torch.nn.Linear(3, 2)
e = EMA(m, beta=0.9, update_after_step=0, update_every=1)
e2 = ExponentialMovingAverage(m.parameters(), decay=0.9)
for i in range(3):
    with torch.no_grad():
        m.weight.add_(1.0)
    e.update()
    e2.update()
print(e(torch.ones(1, 3)))
with e2.average_parameters():
    print(m.weight)
