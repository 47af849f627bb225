"""Soft actor-critic: twin critics, a squashed Gaussian policy, an entropy coefficient that is learnt."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
torch.manual_seed(5)
LOG_STD_MAX, LOG_STD_MIN = 2, -5


class SoftQNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3 + 1, 24)
        self.fc2 = nn.Linear(24, 1)

    def forward(self, x, a):
        x = torch.cat([x, a], 1)
        return self.fc2(F.relu(self.fc1(x)))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(3, 24)
        self.fc_mean = nn.Linear(24, 1)
        self.fc_logstd = nn.Linear(24, 1)
        self.register_buffer("action_scale", torch.tensor([2.0], dtype=torch.float32))
        self.register_buffer("action_bias", torch.tensor([0.0], dtype=torch.float32))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        log_std = torch.tanh(self.fc_logstd(x))
        return self.fc_mean(x), LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)

    def get_action(self, x):
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        x_t = normal.rsample()  # reparameterization trick
        y_t = torch.tanh(x_t)
        action = y_t * self.action_scale + self.action_bias
        log_prob = normal.log_prob(x_t)
        log_prob -= torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return action, log_prob.sum(1, keepdim=True), torch.tanh(mean) * self.action_scale + self.action_bias


actor = Actor()
qf1, qf2 = SoftQNetwork(), SoftQNetwork()
qf1_target, qf2_target = copy.deepcopy(qf1), copy.deepcopy(qf2)
q_optimizer = torch.optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=1e-3)
actor_optimizer = torch.optim.Adam(list(actor.parameters()), lr=3e-4)
target_entropy = -1.0
log_alpha = torch.zeros(1, requires_grad=True)
a_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)


def update(observations, actions, rewards, next_observations, dones):
    alpha = log_alpha.exp().detach()
    with torch.no_grad():
        next_actions, next_log_pi, _ = actor.get_action(next_observations)
        min_q = torch.min(qf1_target(next_observations, next_actions), qf2_target(next_observations, next_actions))
        next_q = rewards.flatten() + (1 - dones.flatten()) * 0.99 * (min_q - alpha * next_log_pi).view(-1)
    qf1_loss = F.mse_loss(qf1(observations, actions).view(-1), next_q)
    qf2_loss = F.mse_loss(qf2(observations, actions).view(-1), next_q)
    qf_loss = qf1_loss + qf2_loss
    q_optimizer.zero_grad()
    qf_loss.backward()
    q_optimizer.step()

    pi, log_pi, _ = actor.get_action(observations)
    actor_loss = ((alpha * log_pi) - torch.min(qf1(observations, pi), qf2(observations, pi))).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()

    with torch.no_grad():
        _, log_pi, _ = actor.get_action(observations)
    alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
    a_optimizer.zero_grad()
    alpha_loss.backward()
    a_optimizer.step()

    for net, target in ((qf1, qf1_target), (qf2, qf2_target)):
        for param, target_param in zip(net.parameters(), target.parameters()):
            target_param.data.copy_(0.005 * param.data + (1 - 0.005) * target_param.data)
    return qf_loss, actor_loss, alpha


if args.compile:
    update = torch.compile(update)

state = torch.randn(128, 3)
act = torch.rand(128, 1) * 4 - 2
reward = -(state.norm(dim=1, keepdim=True) + 0.1 * act.abs())
next_state = 0.9 * state + 0.1 * act
done = (torch.rand(128, 1) < 0.05).float()
for global_step in range(20):
    idx = torch.randint(len(state), size=(32,))
    qf_loss, actor_loss, alpha = update(state[idx], act[idx], reward[idx], next_state[idx], done[idx])
    print(f"{global_step}: qf_loss {qf_loss.item():.6f} actor_loss {actor_loss.item():.6f} alpha {alpha.item():.6f}")
