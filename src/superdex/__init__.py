"""SuperDex Gym: robot policies trained with large batches of MuJoCo environments on CPUs."""
