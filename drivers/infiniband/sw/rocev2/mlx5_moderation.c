// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * When a receive queue of the card interrupts: the sysfs attribute `moderation` of the auxiliary
 * device, the same for all its queues, changed at any time:
 *
 *	dim			after more packets, or a longer wait, the more there are
 *	fixed USECS PACKETS	USECS after the first packet, or after PACKETS
 *	poll PERCENT		not at all: the queue is polled for PERCENT of a CPU's time
 */
#include <linux/dim.h>
#include <linux/kstrtox.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mlx5.h"

/* one interrupt per 8 to 16 packets is common practice at 100 Gb/s */
#define FIXED_USECS	16
#define FIXED_PACKETS	16

/* steps that net_dim() goes up and down */
#define DIM_PROFILES	5

/*
 * Packets that the longest wait must gather; when they are fewer, DIM rests on its lowest step. At
 * 4 in 256 us that is below 16,000 packets a second: interrupts that a CPU does not feel.
 */
#define DIM_GATHER	4

#define POLL_PERIOD_US	1000

/*
 * What DIM chooses from: 64 us longer with each step, 2 us for a packet. DIM takes one step at a
 * time and turns back when it gains less than 10 %: the first is long enough for a packet more at
 * 16,000 a second, the last saves a fourth of the interrupts of the one before.
 */
static const struct {
	u16	usecs;
	u16	packets;
} dim_profiles[DIM_PROFILES] = {
	{ 0,	1 },
	{ 64,	32 },
	{ 128,	64 },
	{ 192,	96 },
	{ 256,	128 },
};

static void apply(struct rocev2_mlx5_rxq *rxq, u16 usecs, u16 packets)
{
	/* on failure the card goes on as before: later and more interrupts, nothing lost */
	if (mlx5_core_modify_cq_moderation(rxq->attach->mdev, &rxq->mcq, usecs, packets))
		dev_warn_ratelimited(rxq->attach->dev,
				     "rocev2: the card does not change the moderation of queue %u\n",
				     rxq->index);
}

static void dim_work(struct work_struct *work)
{
	struct dim *dim = container_of(work, struct dim, work);
	struct rocev2_mlx5_rxq *rxq = container_of(dim, struct rocev2_mlx5_rxq, dim);
	u8 ix = dim->profile_ix;

	/* queued by a poll that had not seen the mode change */
	if (READ_ONCE(rxq->attach->moderation.mode) != ROCEV2_MLX5_DIM)
		return;
	apply(rxq, dim_profiles[ix].usecs, dim_profiles[ix].packets);
	rxq->stats.profile_changes++;
	dim->state = DIM_START_MEASURE;
}

/*
 * net_dim() would not rest by itself: it compares rates in whole packets a millisecond, so a light
 * load looks better or worse at random, and it wanders through the steps. Half as many packets are
 * enough to stay above: who waits for answers sends less because of the waits.
 */
static bool too_sparse(const struct dim *dim, const struct dim_sample *now)
{
	u32 gather = dim->profile_ix ? DIM_GATHER / 2 : DIM_GATHER;
	u32 packets = now->pkt_ctr - dim->start_sample.pkt_ctr;
	s64 usecs = ktime_us_delta(now->time, dim->start_sample.time);

	return (s64)packets * dim_profiles[DIM_PROFILES - 1].usecs < gather * usecs;
}

/* the lowest step, and from there as in the beginning when there is more to do */
static void rest(struct dim *dim)
{
	dim_park_on_top(dim);
	memset(&dim->prev_stats, 0, sizeof(dim->prev_stats));
	if (!dim->profile_ix) {
		dim->state = DIM_START_MEASURE;
		return;
	}
	dim->profile_ix = 0;
	dim->state = DIM_APPLY_NEW_PROFILE;
	schedule_work(&dim->work);
}

void rocev2_mlx5_moderation_sample(struct rocev2_mlx5_rxq *rxq)
{
	struct dim_sample sample = {};
	struct dim *dim = &rxq->dim;
	u16 events;

	if (READ_ONCE(rxq->attach->moderation.mode) != ROCEV2_MLX5_DIM)
		return;
	dim_update_sample(rxq->stats.interrupts, rxq->stats.packets, rxq->stats.bytes, &sample);
	events = sample.event_ctr - dim->start_sample.event_ctr;
	if (dim->state == DIM_MEASURE_IN_PROGRESS && events >= DIM_NEVENTS &&
	    too_sparse(dim, &sample))
		rest(dim);
	net_dim(dim, &sample);
}

bool rocev2_mlx5_poll_on(struct rocev2_mlx5_rxq *rxq)
{
	const struct rocev2_mlx5_moderation *m = &rxq->attach->moderation;
	s64 elapsed;
	ktime_t now;

	if (READ_ONCE(m->mode) != ROCEV2_MLX5_POLL)
		return false;
	if (READ_ONCE(m->percent) >= 100)
		return true;
	now = ktime_get();
	elapsed = ktime_us_delta(now, rxq->period_start);
	if (elapsed >= POLL_PERIOD_US) {
		rxq->period_start = now;
		return true;
	}
	if (elapsed < READ_ONCE(m->percent) * POLL_PERIOD_US / 100)
		return true;
	/* interrupts for the rest of the period */
	hrtimer_start(&rxq->poll_timer, ktime_add_us(rxq->period_start, POLL_PERIOD_US),
		      HRTIMER_MODE_ABS_SOFT);
	return false;
}

static enum hrtimer_restart poll_timer(struct hrtimer *timer)
{
	struct rocev2_mlx5_rxq *rxq = container_of(timer, struct rocev2_mlx5_rxq, poll_timer);

	napi_schedule(&rxq->napi);
	return HRTIMER_NORESTART;
}

void rocev2_mlx5_moderation_init(struct rocev2_mlx5_rxq *rxq)
{
	memset(&rxq->dim, 0, sizeof(rxq->dim));
	INIT_WORK(&rxq->dim.work, dim_work);
	rxq->dim.mode = DIM_CQ_PERIOD_MODE_START_FROM_EQE;
	rxq->period_start = ktime_get();
	hrtimer_setup(&rxq->poll_timer, poll_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}

/* NAPI is disabled and its last poll over: nobody starts them again */
void rocev2_mlx5_moderation_exit(struct rocev2_mlx5_rxq *rxq)
{
	hrtimer_cancel(&rxq->poll_timer);
	cancel_work_sync(&rxq->dim.work);
}

void rocev2_mlx5_moderation_first(const struct rocev2_mlx5 *attach, u16 *usecs, u16 *packets)
{
	switch (attach->moderation.mode) {
	case ROCEV2_MLX5_FIXED:
		*usecs = attach->moderation.usecs;
		*packets = attach->moderation.packets;
		break;
	default:
		*usecs = dim_profiles[0].usecs;
		*packets = dim_profiles[0].packets;
		break;
	}
}

static void moderation_set(struct rocev2_mlx5 *attach, const struct rocev2_mlx5_moderation *new)
{
	u16 usecs, packets;
	u32 i;

	mutex_lock(&attach->hw_lock);
	/*
	 * Fields first: a poll that sees the mode may see the old ones once. Polling begins with
	 * the next interrupt, on the CPU that gets it.
	 */
	WRITE_ONCE(attach->moderation.percent, new->percent);
	attach->moderation.usecs = new->usecs;
	attach->moderation.packets = new->packets;
	WRITE_ONCE(attach->moderation.mode, new->mode);
	rocev2_mlx5_moderation_first(attach, &usecs, &packets);
	for (i = 0; attach->started && i < attach->num_rxqs; i++) {
		struct rocev2_mlx5_rxq *rxq = &attach->rxqs[i];

		/* DIM begins again from its lowest step */
		cancel_work_sync(&rxq->dim.work);
		rxq->dim.profile_ix = 0;
		rxq->dim.state = DIM_START_MEASURE;
		apply(rxq, usecs, packets);
	}
	mutex_unlock(&attach->hw_lock);
}

static ssize_t moderation_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct rocev2_mlx5 *attach = dev_get_drvdata(device);
	struct rocev2_mlx5_moderation m;

	mutex_lock(&attach->hw_lock);
	m = attach->moderation;
	mutex_unlock(&attach->hw_lock);
	switch (m.mode) {
	case ROCEV2_MLX5_FIXED:
		return sysfs_emit(buf, "fixed %u %u\n", m.usecs, m.packets);
	case ROCEV2_MLX5_POLL:
		return sysfs_emit(buf, "poll %u\n", m.percent);
	default:
		return sysfs_emit(buf, "dim\n");
	}
}

static int moderation_parse(char **word, int words, struct rocev2_mlx5_moderation *m)
{
	int ret = 0;

	if (words == 1 && !strcmp(word[0], "dim")) {
		m->mode = ROCEV2_MLX5_DIM;
		return 0;
	}
	if ((words == 1 || words == 3) && !strcmp(word[0], "fixed")) {
		m->mode = ROCEV2_MLX5_FIXED;
		m->usecs = FIXED_USECS;
		m->packets = FIXED_PACKETS;
		if (words == 3)
			ret = kstrtou16(word[1], 0, &m->usecs) ?:
			      kstrtou16(word[2], 0, &m->packets);
		return ret ?: m->usecs > MLX5_MAX_CQ_PERIOD ? -ERANGE : 0;
	}
	if ((words == 1 || words == 2) && !strcmp(word[0], "poll")) {
		m->mode = ROCEV2_MLX5_POLL;
		m->percent = 100;
		if (words == 2)
			ret = kstrtou8(word[1], 0, &m->percent);
		return ret ?: !m->percent || m->percent > 100 ? -ERANGE : 0;
	}
	return -EINVAL;
}

static ssize_t moderation_store(struct device *device, struct device_attribute *attr,
				const char *buf, size_t count)
{
	struct rocev2_mlx5 *attach = dev_get_drvdata(device);
	struct rocev2_mlx5_moderation m = {};
	int words, ret;
	char **word;

	word = argv_split(GFP_KERNEL, buf, &words);
	if (!word)
		return -ENOMEM;
	ret = moderation_parse(word, words, &m);
	argv_free(word);
	if (ret)
		return ret;
	moderation_set(attach, &m);
	return count;
}
static DEVICE_ATTR_RW(moderation);

static struct attribute *rocev2_mlx5_attrs[] = {
	&dev_attr_moderation.attr,
	NULL,
};

static const struct attribute_group rocev2_mlx5_group = {
	.attrs = rocev2_mlx5_attrs,
};

const struct attribute_group *rocev2_mlx5_groups[] = {
	&rocev2_mlx5_group,
	NULL,
};
