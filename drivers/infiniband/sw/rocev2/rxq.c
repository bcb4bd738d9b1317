// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive queues. A QP with work is put on the ready list of the CPU that found
 * the work, and that CPU's NAPI context runs it: packets and doorbells arrive in
 * batches, and the NAPI budget keeps a busy QP from starving others or the CPU.
 *
 * Owned by the device: made before registration, gone after the last QP.
 */
#include <linux/netdevice.h>

#include "qp.h"
#include "rocev2.h"
#include "rxq.h"

static struct rocev2_qp *rxq_pop(struct rocev2_rxq *rxq)
{
	struct llist_node *node;

	if (!rxq->local)
		rxq->local = llist_reverse_order(llist_del_all(&rxq->ready));
	node = rxq->local;
	if (!node)
		return NULL;
	rxq->local = node->next;
	return llist_entry(node, struct rocev2_qp, ready);
}

static int rxq_poll(struct napi_struct *napi, int budget)
{
	struct rocev2_rxq *rxq = container_of(napi, struct rocev2_rxq, napi);
	struct rocev2_qp *qp;
	int work = 0;

	while (work < budget) {
		qp = rxq_pop(rxq);
		if (!qp)
			break;
		/* a QP with nothing to do still costs something: no endless poll */
		work += max(rocev2_qp_poll(qp, budget - work), 1);
	}
	if (work >= budget)
		return budget;
	/*
	 * A QP added after the last pop has found NAPI scheduled and relies on us:
	 * napi_complete_done() clears SCHED, then look again. Pairs with llist_add()
	 * before napi_schedule() in rocev2_rxq_schedule(); both are full barriers.
	 */
	if (napi_complete_done(napi, work)) {
		smp_mb(); /* SCHED cleared before ready is read */
		if (!llist_empty(&rxq->ready))
			napi_schedule(napi);
	}
	return work;
}

void rocev2_rxq_schedule(struct rocev2_qp *qp)
{
	struct rocev2_rxq *rxq = raw_cpu_ptr(qp->dev->rxqs);

	llist_add(&qp->ready, &rxq->ready);
	if (in_hardirq() || irqs_disabled() || in_softirq()) {
		napi_schedule(&rxq->napi);
	} else {
		/* makes the raised softirq run now rather than at the next interrupt */
		local_bh_disable();
		napi_schedule(&rxq->napi);
		local_bh_enable();
	}
}

/**
 * rocev2_rxqs_init() - make a device's receive queues
 * @dev: the device, not registered yet
 *
 * Return: 0 or -ENOMEM.
 */
int rocev2_rxqs_init(struct rocev2_dev *dev)
{
	int cpu;

	dev->napi_dev = alloc_netdev_dummy(0);
	if (!dev->napi_dev)
		return -ENOMEM;
	dev->rxqs = alloc_percpu(struct rocev2_rxq);
	if (!dev->rxqs) {
		free_netdev(dev->napi_dev);
		return -ENOMEM;
	}
	for_each_possible_cpu(cpu) {
		struct rocev2_rxq *rxq = per_cpu_ptr(dev->rxqs, cpu);

		init_llist_head(&rxq->ready);
		netif_napi_add(dev->napi_dev, &rxq->napi, rxq_poll);
		napi_enable(&rxq->napi);
	}
	return 0;
}

/**
 * rocev2_rxqs_exit() - undo rocev2_rxqs_init()
 * @dev: the device; no QP is left
 */
void rocev2_rxqs_exit(struct rocev2_dev *dev)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct rocev2_rxq *rxq = per_cpu_ptr(dev->rxqs, cpu);

		napi_disable(&rxq->napi);
		__netif_napi_del(&rxq->napi);
	}
	/* one grace period for all, as __netif_napi_del() asks for */
	synchronize_net();
	free_percpu(dev->rxqs);
	free_netdev(dev->napi_dev);
}
