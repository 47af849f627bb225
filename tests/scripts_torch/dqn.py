"""Deep Q-learning with a replay memory, a target network with soft updates, and an epsilon-greedy policy."""

import math
import random
import sys
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
device = torch.device(
    "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
)
Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))
BATCH_SIZE, GAMMA, EPS_START, EPS_END, EPS_DECAY, TAU, LR = 16, 0.99, 0.9, 0.05, 100, 0.005, 1e-3


class ReplayMemory(object):

    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        """Save a transition"""
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):

    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 32)
        self.layer2 = nn.Linear(32, 32)
        self.layer3 = nn.Linear(32, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Pendulum:
    def reset(self):
        self.angle, self.spin, self.t = np.random.uniform(-0.3, 0.3), 0.0, 0
        return np.array([np.cos(self.angle), np.sin(self.angle), self.spin])

    def step(self, action):
        self.t += 1
        self.spin += 0.05 * (9.8 * np.sin(self.angle) + 8.0 * (action - 1))
        self.angle += 0.05 * self.spin
        reward = float(np.cos(self.angle))
        state = np.array([np.cos(self.angle), np.sin(self.angle), self.spin])
        return state, reward, abs(self.angle) > 1.5, self.t >= 20


env = Pendulum()
policy_net = DQN(3, 3).to(device)
target_net = DQN(3, 3).to(device)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=LR, amsgrad=True)
memory = ReplayMemory(1000)
steps_done = 0


def select_action(state):
    global steps_done
    sample = random.random()
    eps_threshold = EPS_END + (EPS_START - EPS_END) * math.exp(-1. * steps_done / EPS_DECAY)
    steps_done += 1
    if sample > eps_threshold:
        with torch.no_grad():
            # t.max(1) will return the largest column value of each row
            return policy_net(state).max(1).indices.view(1, 1)
    else:
        return torch.tensor([[random.randrange(3)]], device=device, dtype=torch.long)


def optimize_model(state_batch, action_batch, reward_batch, non_final_mask, non_final_next_states):
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
    expected_state_action_values = (next_state_values * GAMMA) + reward_batch
    criterion = nn.SmoothL1Loss()
    loss = criterion(state_action_values, expected_state_action_values.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    return loss


if "--compile" in sys.argv:
    optimize_model = torch.compile(optimize_model)


def sample_and_optimize():
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), device=device, dtype=torch.bool)
    non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
    return optimize_model(
        torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward), non_final_mask, non_final_next_states)


updates = 0
for i_episode in range(50):
    state = torch.tensor(env.reset(), dtype=torch.float32, device=device).unsqueeze(0)
    while True:
        action = select_action(state)
        observation, reward, terminated, truncated = env.step(action.item())
        reward = torch.tensor([reward], device=device, dtype=torch.float32)
        next_state = None if terminated else torch.tensor(observation, dtype=torch.float32).unsqueeze(0)
        memory.push(state, action, next_state, reward)
        state = next_state
        if len(memory) >= BATCH_SIZE:
            loss = sample_and_optimize()
            updates += 1
            print(f"episode {i_episode} update {updates} loss {loss.item():.6f}")
            target_net_state_dict = target_net.state_dict()
            policy_net_state_dict = policy_net.state_dict()
            for key in policy_net_state_dict:
                target_net_state_dict[key] = policy_net_state_dict[key]*TAU + target_net_state_dict[key]*(1-TAU)
            target_net.load_state_dict(target_net_state_dict)
        if terminated or truncated or updates == 20:
            break
    if updates == 20:
        break
print('Complete', len(memory))
