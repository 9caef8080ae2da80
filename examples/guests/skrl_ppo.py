"""skrl's PPO. Needs: pip install "superdex-gym[guests]"."""

import numpy as np
import torch
import tyro
from gymnasium.wrappers.vector import RecordEpisodeStatistics, TransformAction
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

from superdex.lab.gym.envs.benchmarks.cartpole_env import CartPoleEnv
from superdex.lab.gym.utils.vector import SceneVectorEnv

NETWORK = [{"name": "net", "input": "OBSERVATIONS", "layers": [64], "activations": "relu"}]
ROLLOUT = {"rollouts": 128, "discount_factor": 0.99, "time_limit_bootstrap": True}
UPDATE = {"learning_epochs": 4, "mini_batches": 16, "learning_rate": 3e-3}
LOSSES = {"value_clip": 0, "value_loss_scale": 0.5, "grad_norm_clip": 0}


class SameStepPPO(PPO):
    def record_transition(self, *, next_observations, terminated, truncated, infos, **others):
        """Record as the next observation of an episode's last step its own last one, not the next episode's first."""
        ended = (terminated | truncated).flatten()
        if ended.any():
            next_observations = next_observations.clone()  # the trainer acts on the original
            finals = np.stack(infos["final_obs"][ended.cpu().numpy()])
            next_observations[ended] = torch.as_tensor(finals).to(next_observations).flatten(1)
        truncated = truncated & ~terminated  # skrl adds a value wherever it sees `truncated`
        others.update(next_observations=next_observations, terminated=terminated, truncated=truncated, infos=infos)
        super().record_transition(**others)


def main(num_envs: int = 64, iterations: int = 30):
    set_seed(0)
    torch.set_num_threads(1)  # for networks this small, more threads only wait for each other
    with SceneVectorEnv(CartPoleEnv, num_envs=num_envs, autoreset_mode="SameStep") as scene_envs:
        space = scene_envs.action_space
        clipped = TransformAction(scene_envs, lambda action: np.clip(action, space.low, space.high))  # not all tasks do
        statistics = RecordEpisodeStatistics(clipped, buffer_length=1_000_000)
        envs = wrap_env(statistics, wrapper="gymnasium")
        spaces = {"observation_space": envs.observation_space, "action_space": envs.action_space, "device": envs.device}
        policy = gaussian_model(**spaces, network=NETWORK, output="ACTIONS")
        value = deterministic_model(**spaces, network=NETWORK, output="ONE")
        memory = RandomMemory(memory_size=ROLLOUT["rollouts"], num_envs=envs.num_envs, device=envs.device)
        cfg = PPO_CFG(**ROLLOUT, **UPDATE, **LOSSES)
        agent = SameStepPPO(models={"policy": policy, "value": value}, memory=memory, cfg=cfg, **spaces)
        cfg = {"timesteps": iterations * cfg.rollouts, "headless": True, "close_environment_at_exit": False}
        SequentialTrainer(env=envs, agents=agent, cfg=cfg).train()
    returns = list(statistics.return_queue)
    print(f"First 100 episodes: mean return {np.mean(returns[:100]):.1f}")
    print(f"Last 100 episodes: mean return {np.mean(returns[-100:]):.1f}")
    return agent


if __name__ == "__main__":
    tyro.cli(main)
