import numpy as np, torch, gymnasium as gym
from stable_baselines3 import A2C, DQN, PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy

model = PPO("MlpPolicy", "CartPole-v1", seed=0, n_steps=64, batch_size=32, n_epochs=2, device="cpu")
model.learn(128)
print(sum(p.sum().item() for p in model.policy.parameters()))
m = A2C("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
m.learn(60)
print(sum(p.sum().item() for p in m.policy.parameters()))
m = DQN("MlpPolicy", "CartPole-v1", seed=0, learning_starts=20, train_freq=4, device="cpu")
m.learn(100)
print(sum(p.sum().item() for p in m.policy.parameters()))
m = SAC("MlpPolicy", "Pendulum-v1", seed=0, learning_starts=20, device="cpu")
m.learn(40)
print(sum(p.sum().item() for p in m.policy.parameters()))
print(model.predict(np.zeros(4, np.float32), deterministic=True))
