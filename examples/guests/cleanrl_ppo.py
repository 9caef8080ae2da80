"""PPO as a loop of one's own on Gymnasium's vector API, in the style of CleanRL. Needs torch."""

import numpy as np
import torch
import tyro
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from torch import nn

from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

STEPS, EPOCHS, MINIBATCH, GAMMA, LAMBDA, CLIP = 128, 4, 512, 0.99, 0.95, 0.2


class Agent(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, outputs))
        self.critic = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def forward(self, observation):
        return torch.distributions.Normal(self.actor(observation), self.log_std.exp()), self.critic(observation)[:, 0]


@torch.no_grad()
def collect(envs, agent, observation):
    rows = []
    for _ in range(STEPS):
        policy, value = agent(observation)
        action = policy.sample()
        clipped = np.clip(action.numpy(), envs.action_space.low, envs.action_space.high)  # not every task does it
        following, reward, terminated, truncated, info = envs.step(clipped)
        if (cut := truncated & ~terminated).any():  # by a limit: what was to come is the value of the last observation,
            # which is in `final_obs`; `following` is the first one of the next episode
            reward[cut] += GAMMA * agent(torch.tensor(np.stack(info["final_obs"][cut])).float())[1].numpy()
        rows.append((observation, action, policy.log_prob(action).sum(-1), value, reward, ~(terminated | truncated)))
        observation = torch.tensor(following).float()
    inputs, actions, log_probs, values, rewards, going = [torch.tensor(np.stack(c)) for c in zip(*rows, strict=True)]
    advantages, next_advantage, next_value = torch.zeros_like(values), 0, agent(observation)[1]
    for t in reversed(range(STEPS)):
        advantages[t] = rewards[t] - values[t] + GAMMA * going[t] * (next_value + LAMBDA * next_advantage)
        next_value, next_advantage = values[t], advantages[t]
    targets, advantages = advantages + values, (advantages - advantages.mean()) / advantages.std()
    return observation, [column.flatten(0, 1) for column in (inputs, actions, log_probs, advantages, targets)]


def learn(agent, optimizer, batch):
    for rows in (part for _ in range(EPOCHS) for part in torch.randperm(len(batch[0])).split(MINIBATCH)):
        observation, action, log_prob, advantage, target = (column[rows] for column in batch)
        policy, value = agent(observation)
        ratio = (policy.log_prob(action).sum(-1) - log_prob).exp()
        gain = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
        optimizer.zero_grad()
        (0.5 * (value - target).square().mean() - gain).backward()
        optimizer.step()


def main(num_envs: int = 64, iterations: int = 30):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # for networks this small, more threads only wait for each other
    with SceneVectorEnv(CartPoleEnv, num_envs=num_envs, autoreset_mode="SameStep") as scene_envs:
        envs = RecordEpisodeStatistics(scene_envs)
        agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
        optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
        observation = torch.tensor(envs.reset(seed=0)[0]).float()
        for iteration in range(1, iterations + 1):
            observation, batch = collect(envs, agent, observation)
            learn(agent, optimizer, batch)
            print(f"{iteration * STEPS * num_envs} steps: mean return {np.mean(envs.return_queue):.1f}")
    return agent


if __name__ == "__main__":
    tyro.cli(main)
