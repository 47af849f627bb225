"""Neural style transfer on a tiny random network: Gram matrices at hooked layers, the image itself is optimised."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(14)
torch.set_default_dtype(torch.float64)
cnn = nn.Sequential(
    nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(inplace=False), nn.AvgPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(),
).eval().requires_grad_(False)
normalization_mean = torch.tensor([0.485, 0.456, 0.406])
normalization_std = torch.tensor([0.229, 0.224, 0.225])
y, x = torch.meshgrid(torch.linspace(0, 1, 16), torch.linspace(0, 1, 16), indexing="ij")
content_img = torch.stack([x, y, (x * y)]).unsqueeze(0)
style_img = torch.stack([(12 * x).sin() ** 2, (12 * y).cos() ** 2, (9 * (x + y)).sin() ** 2]).unsqueeze(0)


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super(Normalization, self).__init__()
        self.mean = mean.clone().detach().view(-1, 1, 1)
        self.std = std.clone().detach().view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


features = {}


def keep(name):
    def hook(module, input, output):
        features[name] = output
    return hook


handles = [cnn[i].register_forward_hook(keep(name)) for i, name in ((1, "relu1"), (4, "relu2"))]
normalization = Normalization(normalization_mean, normalization_std)


def extract(img):
    cnn(normalization(img))
    return dict(features)


content_target = extract(content_img)["relu2"].detach()
style_targets = {name: gram_matrix(f).detach() for name, f in extract(style_img).items()}
input_img = content_img.clone()
input_img.requires_grad_(True)
optimizer = optim.LBFGS([input_img], lr=0.5, max_iter=3)


def closure():
    with torch.no_grad():
        input_img.clamp_(0, 1)
    optimizer.zero_grad()
    found = extract(input_img)
    style_score = sum(F.mse_loss(gram_matrix(found[name]), target) for name, target in style_targets.items())
    content_score = F.mse_loss(found["relu2"], content_target)
    loss = 1e4 * style_score + content_score
    loss.backward()
    return loss


if args.compile:
    closure = torch.compile(closure)

run = [0]
while run[0] < 20:
    def counted():
        loss = closure()
        run[0] += 1
        print("run {}: loss {:.5f}".format(run, loss.item()))
        return loss

    optimizer.step(counted)
for handle in handles:
    handle.remove()
with torch.no_grad():
    input_img.clamp_(0, 1)
print("range", input_img.min().item() >= 0, input_img.max().item() <= 1, tuple(input_img.shape))
