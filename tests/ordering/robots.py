"""Real orders: the same robots as two simulators store them, and helpers that write runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from capaudit.ordering import Entry, make_entry, record_entries

# Unitree G1, 29 joints: depth first as MuJoCo numbers them ...
G1_DEPTH_FIRST = (
    *(f"left_{part}_joint" for part in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")),
    *(f"right_{part}_joint" for part in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")),
    *(f"waist_{part}_joint" for part in ("yaw", "roll", "pitch")),
    *(
        f"left_{part}_joint"
        for part in (
            "shoulder_pitch",
            "shoulder_roll",
            "shoulder_yaw",
            "elbow",
            "wrist_roll",
            "wrist_pitch",
            "wrist_yaw",
        )
    ),
    *(
        f"right_{part}_joint"
        for part in (
            "shoulder_pitch",
            "shoulder_roll",
            "shoulder_yaw",
            "elbow",
            "wrist_roll",
            "wrist_pitch",
            "wrist_yaw",
        )
    ),
)
# ... and breadth first, level by level, as PhysX does: legs and waist start at the pelvis, arms at the torso.
G1_BREADTH_FIRST = (
    *("left_hip_pitch_joint", "right_hip_pitch_joint", "waist_yaw_joint"),
    *("left_hip_roll_joint", "right_hip_roll_joint", "waist_roll_joint"),
    *("left_hip_yaw_joint", "right_hip_yaw_joint", "waist_pitch_joint"),
    *("left_knee_joint", "right_knee_joint", "left_shoulder_pitch_joint", "right_shoulder_pitch_joint"),
    *("left_ankle_pitch_joint", "right_ankle_pitch_joint", "left_shoulder_roll_joint", "right_shoulder_roll_joint"),
    *("left_ankle_roll_joint", "right_ankle_roll_joint", "left_shoulder_yaw_joint", "right_shoulder_yaw_joint"),
    *("left_elbow_joint", "right_elbow_joint", "left_wrist_roll_joint", "right_wrist_roll_joint"),
    *("left_wrist_pitch_joint", "right_wrist_pitch_joint", "left_wrist_yaw_joint", "right_wrist_yaw_joint"),
)
LEGS = ("FL", "FR", "RL", "RR")
GO1_JOINTS = tuple(f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "thigh", "calf"))
GO1_BY_KIND = tuple(f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in LEGS)
GO1_BODIES = ("trunk", *(f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf")))


def entry(joints: Sequence[str] = GO1_JOINTS, bodies: Sequence[str] = GO1_BODIES, **more: object) -> Entry:
    """An entry whose public order is the backend's, unless said otherwise."""
    values: dict[str, object] = {"backend": "physx", "is_fixed_base": False, **more}
    backend = str(values.pop("backend"))
    return make_entry(backend, joint_names=joints, body_names=bodies, **values)  # type: ignore[arg-type]


def write_run(run: Path, /, *checkpoints: str, **entries: Entry) -> Path:
    """Record a run folder with these checkpoints; return the record's path."""
    for name in checkpoints:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    path = run / "params" / "ordering.yaml"
    record_entries(entries or {"robot": entry()}, path)
    return path
