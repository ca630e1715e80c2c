"""Queues: why a part of the chip that is busy nearly all the time makes everybody wait."""

from __future__ import annotations

from gpusim_des.analytic.arguments import Curve, curve, require, require_amount


@curve
def md1_wait(utilisation: Curve, service_s: Curve) -> float:
    """Mean wait before service in an M/D/1 queue: ``ρ S / (2 (1 - ρ))``.

    Requests arrive at random (M: Poisson), each takes the same time (D), and there is one server (1), such as a DRAM
    channel.

    Parameters
    ----------
    utilisation
        Share ρ of the time that the server is busy: requests per second × seconds of service; below 1.
    service_s
        Seconds S of service of one request.

    Returns
    -------
    float or array
        Seconds in the queue, without the service itself.

    Raises
    ------
    ValueError
        If the utilisation is not from 0 to below 1, where the queue grows without end, or the service is negative.

    References
    ----------
    Erlang, A. K. (1909); Pollaczek, F. (1930); Khinchin, A. (1932): the mean of M/G/1 with a service of no variance.
    Kleinrock, L. (1975). Queueing Systems, volume 1, section 5.6.

    Examples
    --------
    A sector takes 2 ns; half busy it waits for 1 ns, at 90 % for 9 ns:

    >>> md1_wait([0.0, 0.5, 0.9], 2.0)
    array([0., 1., 9.])
    """
    require(
        "from 0 to below 1: a server that is always busy falls behind, lower the arrival rate or the service time",
        lambda rho: 0 <= rho < 1,
        utilisation=utilisation,
    )
    require_amount(service_s=service_s)
    return float(utilisation * service_s / (2 * (1 - utilisation)))


@curve
def md1_queue_length(utilisation: Curve) -> float:
    """Mean number of requests that wait, the one in service not counted: ``ρ² / (2 (1 - ρ))``.

    It is Little's law of the wait, arrivals per second × `md1_wait`. Parameter, errors and references are those of
    `md1_wait`.

    Examples
    --------
    >>> md1_queue_length(0.5)
    0.25
    """
    return float(utilisation * md1_wait(utilisation, 1.0))
