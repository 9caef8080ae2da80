"""`superdex train`: PPO on large batches, from the command line or from Python, to a policy, its curve and its video.

    from superdex.lab.apps.train import train

    result = train("CartPole", total_steps=1e6, run_dir="runs/mine")
    print(result.return_mean)

Heavy libraries are imported only when training begins.
"""

from superdex.lab.apps.errors import UserError
from superdex.lab.apps.train.launch import resume, train
from superdex.lab.apps.train.summary import TrainResult
from superdex.lab.gym.adapters.errors import TrainingDiverged

__all__ = ["TrainResult", "TrainingDiverged", "UserError", "resume", "train"]
