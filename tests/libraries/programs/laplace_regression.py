import torch
import torch.nn as nn
from laplace import Laplace
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.linspace(-1, 1, 40)[:, None]
y = x.sin() + 0.1 * torch.randn(40, 1)
dl = DataLoader(TensorDataset(x, y), batch_size=10)
m = nn.Sequential(nn.Linear(1, 10), nn.Tanh(), nn.Linear(10, 1))
o = torch.optim.Adam(m.parameters(), lr=1e-2)
for e in range(10):
    for a, b in dl:
        o.zero_grad()
        l = nn.functional.mse_loss(m(a), b)
        l.backward()
        o.step()
la = Laplace(m, "regression", subset_of_weights="all", hessian_structure="full")
la.fit(dl)
print(la.log_marginal_likelihood())
f, v = la(x[:3])
print(f, v)
