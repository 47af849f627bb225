import torch
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
e = torch.randn(12, 8, requires_grad=True)
y = torch.randint(0, 3, (12,))
for L in [
    losses.TripletMarginLoss(),
    losses.ContrastiveLoss(),
    losses.NTXentLoss(),
    losses.MultiSimilarityLoss(),
    losses.CircleLoss(),
    losses.SupConLoss(),
    losses.ArcFaceLoss(3, 8),
    losses.ProxyAnchorLoss(3, 8),
    losses.LiftedStructureLoss(),
    losses.AngularLoss(),
    losses.NPairsLoss(),
]:
    torch.manual_seed(1)
    l = L(e, y)
    (g,) = torch.autograd.grad(l, e)
    print(type(L).__name__, l.item(), g.abs().sum().item())
m = miners.MultiSimilarityMiner()
print([t.tolist() for t in m(e, y)])
