"""Ray caster for one object in a room: deterministic, numpy only.

Lengths are in units of the distance from the camera to the object, which stands at the origin. y points up, and the
camera looks along +z. For every ray the result is what it hits (sky, floor, wall, object), the light there, and the
highlight. Colours are applied later, since a colour only multiplies the light.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

SKY, FLOOR, WALL, OBJECT = range(4)
FAR = 1e9


@dataclass(frozen=True)
class Scene:
    """Parameters of the room, the camera and the lights, fitted to the published images of 3D Shapes."""

    focal: float = 1.732  # in half image widths: a field of view of 60°
    pitch: float = 0.0625  # radians downwards
    camera_height: float = 0.454  # height of the camera
    pivot: float = 0.437  # distance of the camera from the centre of the room, about which it rotates
    wall_distance: float = 1.735  # distance of the walls from the centre
    wall_height: float = 0.912  # height of the walls
    cube: float = 0.172  # half the side, at scale 1
    cylinder: tuple[float, float] = (0.1775, 0.37)  # radius and height
    sphere: float = 0.205
    capsule: tuple[float, float] = (0.145, 0.65)
    lamp: tuple[float, float, float] = (-0.6, 2.5, 0.0)  # relative to the object
    lamp_aim: tuple[float, float] = (-0.79, -0.13)  # point on the floor at which the lamp is aimed
    lamp_exponent: float = 4.2  # the light of the lamp falls off as this power of the cosine
    ambient: float = 0.37
    front_light: float = 0.5  # light from the front wall
    lamp_intensity: float = 0.87
    specular: float = 0.18


def camera_rays(scene: Scene, size: int, subsamples: int) -> np.ndarray:
    """Unit directions "n 3" of the rays of an image of size×size pixels; the rays of a pixel are consecutive.

    Args:
        scene: the scene.
        size: side of the image in pixels.
        subsamples: rays per side of a pixel.
    """
    ticks = (np.arange(size * subsamples) + 0.5) / (size * subsamples) * 2 - 1
    x, y = np.meshgrid(ticks, -ticks)
    c, s = np.cos(scene.pitch), np.sin(scene.pitch)
    rays = np.stack([x, y * c - scene.focal * s, y * s + scene.focal * c], axis=-1)
    rays /= np.linalg.norm(rays, axis=-1, keepdims=True)
    return rays.reshape(size, subsamples, size, subsamples, 3).swapaxes(1, 2).reshape(-1, 3)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Dot product along the last axis.

    Args:
        a: first array of vectors.
        b: second array of vectors.
    """
    return np.einsum("...k,...k->...", a, b)


def rotate_about_y(points: np.ndarray, angle: float) -> np.ndarray:
    """Rotate points about the vertical axis.

    Args:
        points: coordinates "… 3".
        angle: angle in radians.
    """
    c, s = np.cos(angle), np.sin(angle)
    x, y, z = np.moveaxis(points, -1, 0)
    return np.stack([c * x + s * z, y, c * z - s * x], axis=-1)


def intersect_room(scene: Scene, origin: np.ndarray, ray: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Intersect rays with the empty room: distance, material and normal.

    Args:
        scene: the scene.
        origin: origins of the rays.
        ray: directions of the rays.
    """
    ox, oy, oz = np.moveaxis(origin, -1, 0)
    dx, dy, dz = np.moveaxis(ray, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        floor = np.where(dy < 0, -oy / dy, FAR)
        back = np.where(dz > 0, (scene.wall_distance - oz) / dz, FAR)
        right = np.where(dx > 0, (scene.wall_distance - ox) / dx, FAR)
        left = np.where(dx < 0, (-scene.wall_distance - ox) / dx, FAR)
    stacked = np.stack([floor, back, right, left])
    which, distance = stacked.argmin(axis=0), stacked.min(axis=0)
    high = (which > 0) & (oy + distance * dy > scene.wall_height)
    material = np.where(high | (distance >= FAR), SKY, np.where(which == 0, FLOOR, WALL))
    normals = np.array([[0, 1, 0], [0, 0, -1], [-1, 0, 0], [1, 0, 0]], float)
    return np.where(material == SKY, FAR, distance), material, normals[which]


def intersect_cube(half_side: float, origin: np.ndarray, ray: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intersect rays with a cube on the floor: distance and normal.

    Args:
        half_side: half the side of the cube.
        origin: origins of the rays.
        ray: directions of the rays.
    """
    centre = np.array([0, half_side, 0])
    with np.errstate(divide="ignore"):
        inverse = 1 / np.where(ray == 0, 1e-12, ray)
    a, b = (centre - half_side - origin) * inverse, (centre + half_side - origin) * inverse
    near, far = np.minimum(a, b), np.maximum(a, b)
    enter, leave = near.max(axis=-1), far.min(axis=-1)
    axis = near.argmax(axis=-1)
    normal = -np.sign(np.take_along_axis(ray, axis[..., None], -1)) * np.eye(3)[axis]
    return np.where((enter < leave) & (enter > 1e-6), enter, FAR), normal


def intersect_sphere(
    radius: float, centre: tuple[float, float, float], origin: np.ndarray, ray: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intersect rays with a sphere: distance and normal.

    Args:
        radius: radius of the sphere.
        centre: centre of the sphere.
        origin: origins of the rays.
        ray: directions of the rays.
    """
    to = origin - np.array(centre)
    b = dot(to, ray)
    root = b * b - dot(to, to) + radius * radius
    distance = np.where(root > 0, -b - np.sqrt(np.maximum(root, 0)), FAR)
    distance = np.where(distance > 1e-6, distance, FAR)
    return distance, (to + np.where(distance < FAR, distance, 0)[..., None] * ray) / radius


def intersect_cylinder(
    radius: float, low: float, high: float, origin: np.ndarray, ray: np.ndarray, capped: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Intersect rays with an upright cylinder: distance and normal.

    Args:
        radius: radius of the cylinder.
        low: height of its lower end.
        high: height of its upper end.
        origin: origins of the rays.
        ray: directions of the rays.
        capped: whether the upper end is closed.
    """
    flat = ray[..., [0, 2]]
    start = origin[..., [0, 2]]
    a, b = np.maximum(dot(flat, flat), 1e-12), dot(start, flat)
    root = b * b - a * (dot(start, start) - radius * radius)
    distance = np.where(root > 0, (-b - np.sqrt(np.maximum(root, 0))) / a, FAR)
    height = origin[..., 1] + distance * ray[..., 1]
    hit = (distance > 1e-6) & (height >= low) & (height <= high) & (distance < FAR)
    distance = np.where(hit, distance, FAR)
    at = np.where(hit, distance, 0)[..., None]
    normal = (origin + at * ray) / radius * np.array([1.0, 0, 1])
    if capped:
        slope = np.where(np.abs(ray[..., 1]) < 1e-12, 1e-12, ray[..., 1])
        top = (high - origin[..., 1]) / slope
        place = start + top[..., None] * flat
        lid = (top > 1e-6) & (dot(place, place) <= radius * radius) & (top < distance)
        distance = np.where(lid, top, distance)
        normal = np.where(lid[..., None], np.array([0.0, 1, 0]), normal)
    return distance, normal


def intersect_object(
    scene: Scene, shape: str, scale: float, origin: np.ndarray, ray: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Intersect rays "n 3" with the object on the floor: distance and normal.

    Only rays that hit a sphere around the object are examined.

    Args:
        scene: the scene.
        shape: cube, cylinder, sphere or capsule.
        scale: size of the object.
        origin: origins of the rays.
        ray: directions of the rays.
    """
    heights = {"cube": 2 * scene.cube, "sphere": 2 * scene.sphere, "cylinder": scene.cylinder[1]}
    high = heights.get(shape, scene.capsule[1])
    to = origin - np.array([0, scale * high / 2, 0])
    along = dot(to, ray)
    near = np.flatnonzero(dot(to, to) - along * along < (1.01 * scale * high) ** 2)
    distance, normal = np.full(len(ray), FAR), np.zeros((len(ray), 3))
    distance[near], normal[near] = _intersect_shape(scene, shape, scale, origin[near], ray[near])
    return distance, normal


def _intersect_shape(
    scene: Scene, shape: str, scale: float, origin: np.ndarray, ray: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if shape == "cube":
        return intersect_cube(scale * scene.cube, origin, ray)
    if shape == "cylinder":
        r, tall = scale * np.array(scene.cylinder)
        return intersect_cylinder(r, 0, tall, origin, ray, capped=True)
    if shape == "sphere":
        r = scale * scene.sphere
        return intersect_sphere(r, (0, r, 0), origin, ray)
    r, tall = scale * np.array(scene.capsule)
    parts = [
        intersect_cylinder(r, r, tall - r, origin, ray, capped=False),
        intersect_sphere(r, (0, r, 0), origin, ray),
        intersect_sphere(r, (0, tall - r, 0), origin, ray),
    ]
    nearest = np.stack([p[0] for p in parts]).argmin(axis=0)
    normal = np.choose(nearest[..., None], [p[1] for p in parts])
    return np.min([p[0] for p in parts], axis=0), normal


@lru_cache(maxsize=16)
def room_view(scene: Scene, angle: float, size: int, subsamples: int) -> tuple[np.ndarray, ...]:
    """View of the empty room from one angle (origin, ray, distance, material, normal), the same for all objects.

    Args:
        scene: the scene.
        angle: azimuth of the camera in radians.
        size: side of the image in pixels.
        subsamples: rays per side of a pixel.
    """
    ray = rotate_about_y(camera_rays(scene, size, subsamples), angle)
    origin = np.broadcast_to(rotate_about_y(np.array([0.0, scene.camera_height, -scene.pivot]), angle), ray.shape)
    return origin, ray, *intersect_room(scene, origin, ray)


def render_light(
    scene: Scene, shape: str, scale: float, angle: float, size: int = 64, subsamples: int = 3
) -> np.ndarray:
    """Light "5 size size" in [0, ~1.3]: on the floor, the wall and the object, the share of sky, and highlights.

    An image is floor·colour + wall·colour + object·colour + sky·blue + highlight·white, clipped to 1.

    Args:
        scene: the scene.
        shape: cube, cylinder, sphere or capsule.
        scale: size of the object.
        angle: azimuth of the camera in radians.
        size: side of the image in pixels.
        subsamples: rays per side of a pixel.
    """
    origin, ray, distance, material, normal = room_view(scene, angle, size, subsamples)
    place = rotate_about_y(np.array([0.0, 0.0, 1 - scene.pivot]), angle)
    there, facing = intersect_object(scene, shape, scale, origin - place, ray)
    hit = there < distance
    distance, material = np.where(hit, there, distance), np.where(hit, OBJECT, material)
    normal = np.where(hit[..., None], facing, normal)
    solid = material != SKY
    light, highlight = np.zeros(solid.shape), np.zeros(solid.shape)
    point = origin[solid] + distance[solid][:, None] * ray[solid] - place
    light[solid], highlight[solid] = shade(scene, shape, scale, point, normal[solid], ray[solid])
    layers = [np.where(material == kind, light, 0) for kind in (FLOOR, WALL, OBJECT)]
    layers += [~solid, np.where(material == OBJECT, highlight, 0)]
    return np.stack(layers).reshape(5, size, size, subsamples * subsamples).mean(axis=-1)


def shade(
    scene: Scene, shape: str, scale: float, point: np.ndarray, normal: np.ndarray, ray: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Brightness and highlight at points: ambient light, front light, and a lamp above that casts the shadow.

    Args:
        scene: the scene.
        shape: shape of the object.
        scale: size of the object.
        point: the points "n 3".
        normal: unit normals at the points.
        ray: directions of the rays that hit the points.
    """
    lamp = np.array(scene.lamp)
    aim = np.array([scene.lamp_aim[0], 0, scene.lamp_aim[1]]) - lamp
    to = lamp - point
    to /= np.sqrt(dot(to, to))[:, None]
    cone = np.clip(-(to @ (aim / np.linalg.norm(aim))), 0, 1) ** scene.lamp_exponent
    seen = np.ones(len(point))
    near = dot(point, point) < 1.5  # no shadow reaches farther
    start = point[near] + 1e-4 * normal[near]
    rays = [_direction_to(lamp + offset, start) for offset in _LAMP_OFFSETS]
    seen[near] = np.mean([intersect_object(scene, shape, scale, start, r)[0] >= FAR for r in rays], axis=0)
    lamp_part = scene.lamp_intensity * cone * np.clip(dot(normal, to), 0, None) * seen
    front_part = scene.front_light * np.clip(-normal[..., 2], 0, None)
    middle = to - ray
    middle /= np.sqrt(dot(middle, middle))[:, None]
    highlight = scene.specular * np.clip(dot(normal, middle), 0, None) ** 16 * seen
    return scene.ambient + front_part + lamp_part, highlight


def _direction_to(lamp: np.ndarray, point: np.ndarray) -> np.ndarray:
    to = lamp - point
    return to / np.sqrt(dot(to, to))[:, None]


# a lamp of finite size casts soft shadows
_LAMP_OFFSETS = 0.06 * np.array([[1, 0, 0], [-1, 0, 0], [0, 0, 1], [0, 0, -1.0]])
