import numpy as np
import torch
import torch.nn as nn
from captum.attr import (
    DeepLift,
    FeatureAblation,
    GradientShap,
    GuidedBackprop,
    InputXGradient,
    IntegratedGradients,
    LayerConductance,
    LayerGradCam,
    Occlusion,
    Saliency,
)

torch.manual_seed(0)
np.random.seed(0)
m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
x = torch.randn(2, 4)
print(IntegratedGradients(m).attribute(x, target=1, return_convergence_delta=True))
print(Saliency(m).attribute(x.requires_grad_(), target=0))
print(DeepLift(m).attribute(x, target=0))
print(InputXGradient(m).attribute(x, target=1))
print(GuidedBackprop(m).attribute(x, target=1))
print(FeatureAblation(m).attribute(x, target=1))
print(Occlusion(m).attribute(x, target=1, sliding_window_shapes=(2,)))
print(LayerConductance(m, m[0]).attribute(x, target=1))
torch.manual_seed(0)
print(GradientShap(m).attribute(x, baselines=torch.zeros(3, 4), target=0, n_samples=3))
c = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
print(LayerGradCam(c, c[0]).attribute(torch.randn(1, 1, 8, 8), target=1))
