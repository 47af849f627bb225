import higher
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(1, 20), nn.ReLU(), nn.Linear(20, 1))
inner = torch.optim.SGD(m.parameters(), lr=0.01)
outer = torch.optim.Adam(m.parameters(), lr=1e-3)
for it in range(3):
    outer.zero_grad()
    tot = 0
    for task in range(2):
        x = torch.rand(10, 1) * 10 - 5
        a = torch.rand(1) * 4 + 1
        y = a * torch.sin(x)
        with higher.innerloop_ctx(m, inner, copy_initial_weights=False) as (fm, do):
            for _ in range(3):
                do.step(F.mse_loss(fm(x[:5]), y[:5]))
            l = F.mse_loss(fm(x[5:]), y[5:])
            l.backward()
            tot += l.item()
    outer.step()
    print(tot)
import geotorch

torch.manual_seed(0)
l = nn.Linear(4, 4)
geotorch.orthogonal(l, "weight")
o = torch.optim.SGD(l.parameters(), lr=0.1)
for i in range(3):
    o.zero_grad()
    v = (l(torch.eye(4)) - 1).pow(2).sum()
    v.backward()
    o.step()
    print(v.item())
print((l.weight @ l.weight.T - torch.eye(4)).abs().max() < 1e-5)
