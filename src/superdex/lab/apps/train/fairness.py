"""From when on a mean return may be compared with later ones: the best policy is chosen by such means only."""

from __future__ import annotations

from superdex.lab.gym.rollouts import EpisodeStatistics

__all__ = ["FairWindow"]


class FairWindow:
    """Tells when the mean over the last episodes is no longer one of short episodes.

    The first episodes to end are the short ones. Where a step costs something, their mean return is one
    that no policy reaches again. So a mean is fair once all its episodes ended after the time at which every
    environment had ended one.

    Args:
        first_episodes: how many episodes had ended at that time; None if it has not come yet.
    """

    def __init__(self, first_episodes: int | None = None) -> None:
        self.first_episodes = first_episodes

    def is_fair(self, statistics: EpisodeStatistics, control_steps: int) -> bool:
        """Whether the mean of `statistics` counts.

        Args:
            statistics: after an iteration; to be shown those of every one.
            control_steps: steps of each environment so far.
        """
        if self.first_episodes is None:
            if statistics.longest_running == control_steps:  # an environment is still in its first episode
                return False
            self.first_episodes = statistics.num_episodes
        return statistics.num_episodes - self.first_episodes >= statistics.window
