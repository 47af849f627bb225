"""WGAN with gradient penalty on a ring of Gaussians: a gradient inside the loss, five critic steps per generator step."""

import argparse
import math

import torch
from torch import autograd, nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--lambda-gp", type=float, default=0.1)
parser.add_argument("--n-critic", type=int, default=4)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(1)
BATCH_SIZE, DIM = 32, 24


class Generator(nn.Module):
    def __init__(self):
        super(Generator, self).__init__()
        main = nn.Sequential(nn.Linear(2, DIM), nn.ReLU(True), nn.Linear(DIM, DIM), nn.ReLU(True), nn.Linear(DIM, 2))
        self.main = main

    def forward(self, noise):
        return self.main(noise)


class Discriminator(nn.Module):
    def __init__(self):
        super(Discriminator, self).__init__()
        self.main = nn.Sequential(nn.Linear(2, DIM), nn.Tanh(), nn.Linear(DIM, DIM), nn.Tanh(), nn.Linear(DIM, 1))

    def forward(self, inputs):
        output = self.main(inputs)
        return output.view(-1)


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find('Linear') != -1:
        m.weight.data.normal_(0.0, 0.2)
        m.bias.data.fill_(0)


def ring():
    angle = torch.randint(8, (BATCH_SIZE,)) * (2 * math.pi / 8)
    return torch.stack((angle.cos(), angle.sin()), 1) * 2 + 0.02 * torch.randn(BATCH_SIZE, 2)


netG, netD = Generator(), Discriminator()
netD.apply(weights_init)
netG.apply(weights_init)
optimizerD = optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.9))
optimizerG = optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.9))


def calc_gradient_penalty(netD, real_data, fake_data):
    alpha = torch.rand(BATCH_SIZE, 1)
    alpha = alpha.expand(real_data.size())
    interpolates = alpha * real_data + ((1 - alpha) * fake_data)
    interpolates = autograd.Variable(interpolates, requires_grad=True)
    disc_interpolates = netD(interpolates)
    gradients = autograd.grad(outputs=disc_interpolates, inputs=interpolates,
                              grad_outputs=torch.ones(disc_interpolates.size()),
                              create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * args.lambda_gp


def critic_step(real):
    netD.zero_grad()
    D_real = netD(real).mean()
    with torch.no_grad():
        fake = netG(torch.randn(BATCH_SIZE, 2))
    D_fake = netD(fake).mean()
    gradient_penalty = calc_gradient_penalty(netD, real.data, fake.data)
    D_cost = D_fake - D_real + gradient_penalty
    D_cost.backward()
    optimizerD.step()
    return D_cost, D_real - D_fake


def generator_step():
    netG.zero_grad()
    G = netD(netG(torch.randn(BATCH_SIZE, 2))).mean()
    G_cost = -G
    G_cost.backward()
    optimizerG.step()
    return G_cost


if args.compile:
    critic_step, generator_step = torch.compile(critic_step), torch.compile(generator_step)

for iteration in range(5):
    for p in netD.parameters():  # reset requires_grad
        p.requires_grad = True
    for _ in range(args.n_critic):
        D_cost, wasserstein = critic_step(ring())
        print(f"critic {D_cost.item():.6f} distance {wasserstein.item():.6f}")
    for p in netD.parameters():
        p.requires_grad = False  # to avoid computation
    print(f"iteration {iteration} generator {generator_step().item():.6f}")
