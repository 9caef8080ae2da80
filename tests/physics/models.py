"""Small MJCF models, each with something that a snapshot or a shared simulator could get wrong."""

from __future__ import annotations

import mujoco

PENDULUM = """
<mujoco model="pendulum">
  <worldbody>
    <body name="pole" pos="0 0 1">
      <joint name="hinge" axis="0 1 0" damping="0.1"/>
      <geom name="rod" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/>
      <site name="tip" pos="0 0 -0.5"/>
    </body>
  </worldbody>
  <actuator><motor name="motor" joint="hinge" ctrlrange="-5 5"/></actuator>
  <keyframe><key name="home" time="0.5" qpos="0.3" qvel="-0.2" ctrl="0.7"/></keyframe>
</mujoco>"""

CONTACTS = """
<mujoco model="contacts">
  <option integrator="implicitfast"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 0.1"/>
    <body name="box" pos="0 0 0.3"><freejoint name="box"/><geom size="0.1 0.1 0.1" type="box"/></body>
    <body name="robot" pos="1 0 0.4">
      <freejoint name="robot"/>
      <geom name="trunk" size="0.1"/>
      <site name="imu"/>
      <body name="arm" pos="0.2 0 0">
        <joint name="elbow" axis="0 1 0" range="-30 30" limited="true" damping="0.1"/>
        <geom size="0.05" pos="0.1 0 0"/>
      </body>
    </body>
    <body name="post" pos="3 0 0"><geom size="0.1"/></body>
    <body name="swing" pos="0 2 1"><joint name="ball" type="ball"/><geom size="0.1" pos="0.2 0 0"/></body>
  </worldbody>
  <actuator>
    <position name="servo" joint="elbow" kp="5"/>
    <general name="muscle" joint="elbow" dyntype="filter" dynprm="0.1" gainprm="3"/>
    <general name="winch" joint="elbow" dyntype="integrator" gainprm="0.5"/>
  </actuator>
</mujoco>"""

DRIVEN = """
<mujoco model="driven">
  <size nuserdata="3"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body name="hand" mocap="true" pos="0 0 1"><geom size="0.05" contype="0" conaffinity="0"/></body>
    <body name="load" pos="0 0 1"><freejoint/><geom size="0.1"/></body>
    <body name="other" pos="0.5 0 1"><freejoint/><geom size="0.1"/></body>
  </worldbody>
  <equality>
    <weld name="grip" body1="hand" body2="load" solref="0.02 1"/>
    <connect name="chain" body1="load" body2="other" anchor="0.25 0 0" active="false"/>
  </equality>
</mujoco>"""

ROM = """
<mujoco model="soft">
  <worldbody>
    <flexcomp name="blob" type="grid" count="3 3 3" spacing="0.1 0.1 0.1" dim="3" dof="trilinear" pos="0 0 1">
      <edge equality="true"/>
    </flexcomp>
    <body name="ball" pos="1 0 1"><freejoint/><geom size="0.1"/></body>
  </worldbody>
</mujoco>"""

ALL = {"pendulum": PENDULUM, "contacts": CONTACTS, "driven": DRIVEN}


def compiled(xml: str) -> mujoco.MjModel:
    """The compiled model of an MJCF text."""
    return mujoco.MjModel.from_xml_string(xml)


def with_sensor(xml: str, sensor: str) -> str:
    """The MJCF text with one more sensor."""
    return xml.replace("</mujoco>", f"<sensor>{sensor}</sensor></mujoco>")


def with_sleep(xml: str) -> str:
    """The MJCF text with sleeping enabled."""
    return xml.replace("<worldbody>", '<option><flag sleep="enable"/></option><worldbody>', 1)
