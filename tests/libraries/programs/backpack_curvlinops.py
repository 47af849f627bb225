import torch
import torch.nn as nn
from backpack import backpack, extend
from backpack.extensions import KFAC, BatchGrad, BatchL2Grad, DiagGGNExact, DiagHessian, SumGradSquared, Variance

torch.manual_seed(0)
m = extend(nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 3)))
lf = extend(nn.CrossEntropyLoss())
x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
l = lf(m(x), y)
with backpack(BatchGrad(), DiagGGNExact(), Variance(), BatchL2Grad(), KFAC(), DiagHessian(), SumGradSquared()):
    l.backward()
for p in m.parameters():
    print(p.grad_batch.shape, p.diag_ggn_exact, p.variance.sum(), p.batch_l2, p.diag_h.sum())
from curvlinops import GGNLinearOperator, HessianLinearOperator

m2 = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
lf2 = nn.CrossEntropyLoss()
ps = [p for p in m2.parameters()]
H = HessianLinearOperator(m2, lf2, ps, [(x, y)], progressbar=False)
v = torch.ones(H.shape[1])
print((H @ v)[:6])
G = GGNLinearOperator(m2, lf2, ps, [(x, y)], progressbar=False)
print((G @ v)[:6])
