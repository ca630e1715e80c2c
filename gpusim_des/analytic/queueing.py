"""Queues: why a part of the chip that is busy nearly all the time makes everybody wait."""

from __future__ import annotations

import math

from gpusim_des.analytic.arguments import Curve, curve, require, require_amount, require_positive, whole


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
def md1_throughput(customers: Curve, servers: Curve, service_s: Curve, latency_s: Curve) -> float:
    """Requests per second λ of a number that is always under way, where each waits as in an M/D/1 queue.

    Little's law with a latency that grows with the load, ``λ (latency + wait(λ)) = customers``, is a quadratic equation
    for the utilisation. Without the wait it would be ``min(servers / service, customers / latency)``: both lines are
    approached, and the knee between them is round.

    Parameters
    ----------
    customers
        Requests under way, for example loads in flight.
    servers
        Servers that share them evenly, for example DRAM channels.
    service_s
        Seconds of service of a request.
    latency_s
        Seconds of a request that is alone, its service included.

    Raises
    ------
    ValueError
        If a number is not positive, or the latency is shorter than the service.

    Examples
    --------
    Two servers of 2 ns that are half busy make everybody wait for 1 ns. With a latency of 20 ns that takes 10.5
    requests:

    >>> md1_throughput(10.5, 2, 2.0, 20.0)
    0.5
    """
    require_positive(customers=customers, servers=servers, service_s=service_s, latency_s=latency_s)
    if latency_s < service_s:
        raise ValueError(f"latency_s = {latency_s}: must be at least service_s = {service_s}, which is a part of it")
    most = servers / service_s
    covered = most * latency_s  # requests that the servers need under way, without any wait
    both = covered + customers
    root = math.sqrt(both * both - 4 * customers * (covered - servers / 2))
    return float(2 * customers / (both + root) * most)


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


@curve
def closed_queue_seconds(customers: Curve, servers: Curve, service_s: Curve, elsewhere_s: Curve) -> float:
    """Mean time of a round of requests of a fixed number: wait at a server, service, and a time elsewhere.

    Each goes to a random server and comes again after its round. Unlike with `md1_wait` nobody can wait for more than
    the others, and the time stays finite when the servers are always busy. Mean value analysis adds one request after
    the other: the next one finds at a server the mean queue that the others make without it, of which the one in
    service is half done. A single server of fixed service is another matter: requests that have waited for each other
    once keep in step for ever, so that nobody waits before there are too many, and the time is exactly
    ``max(elsewhere + service, customers × service)``.

    Parameters
    ----------
    customers
        Requests under way, for example loads in flight.
    servers
        Servers that share them evenly, for example DRAM channels.
    service_s
        Seconds of service, the same for each.
    elsewhere_s
        Seconds of a round without wait and service.

    Returns
    -------
    float or array
        Seconds of a round; with few requests ``elsewhere + service``, with many ``customers × service / servers``.

    Raises
    ------
    ValueError
        If `customers` or `servers` is not a whole number, at least 1, the service is not positive, or the other time is
        negative.

    References
    ----------
    Reiser, M. and Lavenberg, S. (1980). Mean-Value Analysis of Closed Multichain Queuing Networks. Journal of the ACM
    27 (2).
    Reiser, M. (1979). A Queueing Network Analysis of Computer Communication Networks with Window Flow Control. IEEE
    Transactions on Communications 27 (8): a service that is not exponential.

    Examples
    --------
    Two servers of 2 ns, and 18 ns elsewhere. A lone request never waits; the second one meets it at its server with
    a probability of 1/20 (2 of 20 ns, at one of two), and then waits for half of a service; 100 need all there is:

    >>> closed_queue_seconds([1, 2, 100], 2, 2.0, 18.0).round(3)
    array([ 20.  ,  20.05, 100.  ])

    A single one: ten fit into the 20 ns of a round, and take turns without waiting.

    >>> closed_queue_seconds([1, 10, 11], 1, 2.0, 18.0)
    array([20., 20., 22.])
    """
    number, shared = whole("customers", customers), whole("servers", servers)
    require_positive(service_s=service_s)
    require_amount(elsewhere_s=elsewhere_s)
    if shared == 1:
        return float(max(elsewhere_s + service_s, number * service_s))
    queue = busy = round_s = 0.0  # of one server: mean number there, and share of the time that it serves
    for present in range(1, number + 1):
        waited = elsewhere_s + service_s * (1 + queue - busy / 2)
        round_s = max(waited, present * service_s / shared)  # no server does more than one at a time
        each = present / round_s / shared
        queue, busy = each * (round_s - elsewhere_s), each * service_s
    return float(round_s)
