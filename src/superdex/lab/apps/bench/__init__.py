"""`superdex bench`: what the machine at hand makes of the tasks, and how near that is to MuJoCo itself.

| module | owns |
|---|---|
| `command` | the options, and the order of things |
| `sweep`, `gymnasium_ratio`, `sharing`, `scaling` | a section each: what is measured, and its results |
| `measuring` | actions drawn ahead, interleaved timing |
| `laps` | all statistics: medians, and ratios of paired laps |
| `raw_loop` | the `mujoco.batch` loop that a split is compared with |
| `startup` | construction, first reset and memory of one split |
| `memory`, `machine` | facts from the operating system |
| `fresh` | runs a measurement in a new process |
| `report`, `plot`, `style` | tables, JSON and the figure |
| `suite`, `contestants` | `--suite`: Gymnasium's tasks, and who takes part |
| `suite_report`, `suite_plot` | its table and figure |

Every measurement has a process of its own, so that none sees what another left
behind, and whatever is compared is timed in turns within one process: figures
of different processes, let alone of different runs, are never divided by each
other. (Memory is the exception: it is a difference between two fresh processes.)
"""
