"""Training goes on when a worker dies, and no checkpoint is of a moment in which the learner does not know it yet."""

import multiprocessing

import pytest

from superdex.lab.apps.main import main
from superdex.lab.apps.train.checkpoints import CheckpointStore, load_policy
from superdex.lab.apps.train.display import LineDisplay
from superdex.lab.apps.train.run_directory import RunDirectory
from superdex.lab.apps.train.training import Training
from superdex.lab.gym.utils.vector import HybridVectorEnv
from tests.lab.apps.train import runs


def test_training_survives_the_death_of_a_worker(tmp_path, monkeypatch):
    path, update = tmp_path / "run", LineDisplay.update

    def killing(self, row, best):
        update(self, row, best)
        if row.iteration == 2:
            children = multiprocessing.active_children()
            assert len(children) == 2
            children[0].kill()

    monkeypatch.setattr(LineDisplay, "update", killing)

    assert main(runs.arguments(path, num_workers=2, total_steps=5 * runs.STEPS_PER_ITERATION)) == 0
    assert CheckpointStore(RunDirectory(path).checkpoints).newest().steps == 5 * runs.STEPS_PER_ITERATION


@pytest.fixture
def death_before_checkpoint(monkeypatch):
    """Kills one of two workers just before the checkpoint of each of those iterations is saved, once for each call."""
    save, capture = Training._save_if_new, HybridVectorEnv.capture_state

    def kill_at(*iterations):
        deaths = set(iterations)

        def saving(self):
            self._learner.adapter.envs.iteration = self._learner.iteration
            return save(self)

        def killing(self):
            if self.iteration in deaths:
                deaths.remove(self.iteration)
                process = min(multiprocessing.active_children(), key=lambda child: child.pid)
                process.kill()
                process.join()
            return capture(self)

        monkeypatch.setattr(Training, "_save_if_new", saving)
        monkeypatch.setattr(HybridVectorEnv, "capture_state", killing)

    return kill_at


def test_checkpoint_that_finds_a_worker_dead_is_put_off(tmp_path, death_before_checkpoint, interrupted_after):
    """To the end of the next iteration, when the learner knows that episodes ended; also after Ctrl-C."""
    whole, parted = tmp_path / "whole", tmp_path / "parted"
    death_before_checkpoint(3)
    six = 6 * runs.STEPS_PER_ITERATION
    assert main(runs.arguments(whole, num_workers=2, total_steps=six)) == 0
    death_before_checkpoint(3)
    interrupted_after(3)
    assert main(runs.arguments(parted, num_workers=2, total_steps=six)) == 0
    assert iterations_of_checkpoints(parted) == [0, 4]

    interrupted_after(None)
    assert runs.resume(parted, "--num-workers", "0") == 0

    assert iterations_of_checkpoints(whole) == [0, 4, 6]
    runs.assert_same_run(parted, whole)


def test_first_and_last_checkpoint_that_find_a_worker_dead(tmp_path, death_before_checkpoint):
    """The first is put off; the last cannot be, and is one to look at only."""
    path = tmp_path / "run"
    death_before_checkpoint(0, 6)
    assert main(runs.arguments(path, num_workers=2, total_steps=6 * runs.STEPS_PER_ITERATION)) == 0

    store = CheckpointStore(RunDirectory(path).checkpoints)
    assert iterations_of_checkpoints(path) == [1, 3, 6]
    assert load_policy(store.all()[-1].path).info.iteration == 6
    assert store.newest() == store.all()[-2]
    assert runs.resume(path, "--num-workers", "0") == 0
    assert store.newest() == store.all()[-1]


def iterations_of_checkpoints(path):
    return [each.steps // runs.STEPS_PER_ITERATION for each in CheckpointStore(RunDirectory(path).checkpoints).all()]
