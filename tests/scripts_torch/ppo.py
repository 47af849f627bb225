"""Proximal policy optimisation with a Gaussian policy, generalized advantages and minibatches."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.normal import Normal

parser = argparse.ArgumentParser()
parser.add_argument("--num-envs", type=int, default=4)
parser.add_argument("--num-steps", type=int, default=8)
parser.add_argument("--update-epochs", type=int, default=2)
parser.add_argument("--num-minibatches", type=int, default=2)
parser.add_argument("--compile", action="store_true")
args = parser.parse_args()
np.random.seed(1)
torch.manual_seed(1)
torch.backends.cudnn.deterministic = True


class Points:
    """Push a point to the origin; ``num_envs`` of them at once."""

    def reset(self):
        self.x = np.random.randn(args.num_envs, 2)
        self.v = np.zeros((args.num_envs, 2))
        return np.hstack([self.x, self.v])

    def step(self, action):
        self.v = 0.9 * self.v + 0.1 * np.clip(action, -1, 1)
        self.x = self.x + self.v
        done = np.abs(self.x).max(1) > 3
        self.x[done] = 0.0
        return np.hstack([self.x, self.v]), -np.abs(self.x).sum(1), done


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 16)), nn.Tanh(),
            layer_init(nn.Linear(16, 1), std=1.0),
        )
        self.actor_mean = nn.Sequential(
            layer_init(nn.Linear(4, 16)), nn.Tanh(), layer_init(nn.Linear(16, 16)), nn.Tanh(),
            layer_init(nn.Linear(16, 2), std=0.01),
        )
        self.actor_logstd = nn.Parameter(torch.zeros(1, 2))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        action_mean = self.actor_mean(x)
        action_logstd = self.actor_logstd.expand_as(action_mean)
        action_std = torch.exp(action_logstd)
        probs = Normal(action_mean, action_std)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action).sum(1), probs.entropy().sum(1), self.critic(x)


agent = Agent()
optimizer = optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
envs = Points()


def update(mb_obs, mb_actions, mb_logprobs, mb_advantages, mb_returns, mb_values):
    _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb_obs, mb_actions)
    logratio = newlogprob - mb_logprobs
    ratio = logratio.exp()
    with torch.no_grad():
        approx_kl = ((ratio - 1) - logratio).mean()
        clipfrac = ((ratio - 1.0).abs() > 0.2).float().mean()
    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
    pg_loss1 = -mb_advantages * ratio
    pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - 0.2, 1 + 0.2)
    pg_loss = torch.max(pg_loss1, pg_loss2).mean()
    newvalue = newvalue.view(-1)
    v_loss_unclipped = (newvalue - mb_returns) ** 2
    v_clipped = mb_values + torch.clamp(newvalue - mb_values, -0.2, 0.2)
    v_loss = 0.5 * torch.max(v_loss_unclipped, (v_clipped - mb_returns) ** 2).mean()
    loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
    return loss, v_loss, approx_kl, clipfrac


if args.compile:
    update = torch.compile(update)

batch_size = args.num_envs * args.num_steps
obs = torch.zeros((args.num_steps, args.num_envs, 4))
actions = torch.zeros((args.num_steps, args.num_envs, 2))
logprobs = torch.zeros((args.num_steps, args.num_envs))
rewards = torch.zeros((args.num_steps, args.num_envs))
dones = torch.zeros((args.num_steps, args.num_envs))
values = torch.zeros((args.num_steps, args.num_envs))
start_time = time.time()
next_obs = torch.Tensor(envs.reset())
next_done = torch.zeros(args.num_envs)
num_updates = 5
for iteration in range(1, num_updates + 1):
    frac = 1.0 - (iteration - 1.0) / num_updates
    optimizer.param_groups[0]["lr"] = frac * 3e-4
    for step in range(0, args.num_steps):
        obs[step] = next_obs
        dones[step] = next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step] = action
        logprobs[step] = logprob
        next_obs, reward, next_done = envs.step(action.cpu().numpy())
        rewards[step] = torch.tensor(reward).view(-1)
        next_obs, next_done = torch.Tensor(next_obs), torch.Tensor(next_done)

    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards)
        lastgaelam = 0
        for t in reversed(range(args.num_steps)):
            if t == args.num_steps - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - dones[t + 1]
                nextvalues = values[t + 1]
            delta = rewards[t] + 0.99 * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + 0.99 * 0.95 * nextnonterminal * lastgaelam
        returns = advantages + values

    b_obs = obs.reshape((-1, 4))
    b_logprobs = logprobs.reshape(-1)
    b_actions = actions.reshape((-1, 2))
    b_advantages = advantages.reshape(-1)
    b_returns = returns.reshape(-1)
    b_values = values.reshape(-1)
    b_inds = np.arange(batch_size)
    for epoch in range(args.update_epochs):
        np.random.shuffle(b_inds)
        for start in range(0, batch_size, batch_size // args.num_minibatches):
            mb = b_inds[start:start + batch_size // args.num_minibatches]
            loss, v_loss, approx_kl, clipfrac = update(
                b_obs[mb], b_actions[mb], b_logprobs[mb], b_advantages[mb], b_returns[mb], b_values[mb])
            print(f"update {iteration} loss {loss.item():.6f} value loss {v_loss.item():.6f} clipped {clipfrac.item()}")
    y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
    var_y = np.var(y_true)
    explained_var = np.nan if var_y == 0 else 1 - np.var(y_true - y_pred) / var_y
    print(f"explained variance {explained_var:.5f}")
assert time.time() > start_time
