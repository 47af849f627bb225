import torch
import torch.nn as nn
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)


class F(nn.Module):
    def __init__(s):
        super().__init__()
        s.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def forward(s, t, y):
        return s.net(y**3)


f = F()
y0 = torch.tensor([[2.0, 0.0]])
t = torch.linspace(0, 5, 20)
A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])


class L(nn.Module):
    def forward(s, t, y):
        return (y**3) @ A


with torch.no_grad():
    true = odeint(L(), y0, t, method="dopri5")
print(true[-1])
opt = torch.optim.RMSprop(f.parameters(), lr=1e-3)
for i in range(4):
    opt.zero_grad()
    p = odeint_adjoint(f, y0, t) if i % 2 else odeint(f, y0, t, method="rk4")
    l = (p - true).abs().mean()
    l.backward()
    opt.step()
    print(l.item())
