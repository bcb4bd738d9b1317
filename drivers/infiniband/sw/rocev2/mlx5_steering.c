// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Steering: which packets the card brings to our receive queues, and to which of them. One rule per
 * address of the GID table, in the namespace that is looked at before the netdev's:
 *
 *	our MAC address, our IP address, UDP port 4791 -> TIR -> RSS -> receive queue
 *
 * RSS goes over addresses and ports, so the UDP source port that a RoCE v2 sender chooses per QP
 * (annex A17.3.1.2) spreads QPs. What no rule matches reaches the netdev and its ingress hook.
 */
#include <linux/etherdevice.h>
#include <linux/in.h>
#include <linux/mlx5/transobj.h>
#include <linux/slab.h>
#include <net/ipv6.h>

#include "mlx5.h"
#include "wire.h"

/* as many rules as a GID table has entries */
#define MAX_RULES	1024

static int rqt_create(struct rocev2_mlx5 *attach)
{
	u32 size = roundup_pow_of_two(attach->num_rxqs);
	int inlen, ret;
	void *in, *rqtc;
	u32 i;

	inlen = MLX5_ST_SZ_BYTES(create_rqt_in) + sizeof(u32) * size;
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in)
		return -ENOMEM;
	rqtc = MLX5_ADDR_OF(create_rqt_in, in, rqt_context);
	MLX5_SET(rqtc, rqtc, rqt_max_size, size);
	MLX5_SET(rqtc, rqtc, rqt_actual_size, size);
	for (i = 0; i < size; i++)
		MLX5_SET(rqtc, rqtc, rq_num[i], attach->rxqs[i % attach->num_rxqs].rqn);
	ret = mlx5_core_create_rqt(attach->mdev, in, inlen, &attach->rqtn);
	kvfree(in);
	return ret;
}

static int tir_create(struct rocev2_mlx5 *attach, enum rocev2_mlx5_tir which)
{
	u32 in[MLX5_ST_SZ_DW(create_tir_in)] = {};
	void *tirc = MLX5_ADDR_OF(create_tir_in, in, ctx);
	void *fields = MLX5_ADDR_OF(tirc, tirc, rx_hash_field_selector_outer);

	MLX5_SET(tirc, tirc, disp_type, MLX5_TIRC_DISP_TYPE_INDIRECT);
	MLX5_SET(tirc, tirc, indirect_table, attach->rqtn);
	MLX5_SET(tirc, tirc, transport_domain, attach->tdn);
	MLX5_SET(tirc, tirc, rx_hash_fn, MLX5_RX_HASH_FN_TOEPLITZ);
	memcpy(MLX5_ADDR_OF(tirc, tirc, rx_hash_toeplitz_key), attach->rss_key,
	       sizeof(attach->rss_key));
	MLX5_SET(rx_hash_field_select, fields, l3_prot_type,
		 which == ROCEV2_MLX5_TIR_IPV6 ? MLX5_L3_PROT_TYPE_IPV6 : MLX5_L3_PROT_TYPE_IPV4);
	MLX5_SET(rx_hash_field_select, fields, l4_prot_type, MLX5_L4_PROT_TYPE_UDP);
	MLX5_SET(rx_hash_field_select, fields, selected_fields,
		 MLX5_HASH_FIELD_SEL_SRC_IP | MLX5_HASH_FIELD_SEL_DST_IP |
		 MLX5_HASH_FIELD_SEL_L4_SPORT | MLX5_HASH_FIELD_SEL_L4_DPORT);
	return mlx5_core_create_tir(attach->mdev, in, &attach->tirn[which]);
}

static void set_ip_version(struct rocev2_mlx5 *attach, struct mlx5_flow_spec *spec, bool ipv6)
{
	void *mask = MLX5_ADDR_OF(fte_match_param, spec->match_criteria, outer_headers);
	void *value = MLX5_ADDR_OF(fte_match_param, spec->match_value, outer_headers);

	/* older cards know the EtherType only */
	if (MLX5_CAP_FLOWTABLE_NIC_RX(attach->mdev, ft_field_support.outer_ip_version)) {
		MLX5_SET_TO_ONES(fte_match_set_lyr_2_4, mask, ip_version);
		MLX5_SET(fte_match_set_lyr_2_4, value, ip_version, ipv6 ? 6 : 4);
	} else {
		MLX5_SET_TO_ONES(fte_match_set_lyr_2_4, mask, ethertype);
		MLX5_SET(fte_match_set_lyr_2_4, value, ethertype, ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	}
}

static void set_address(struct mlx5_flow_spec *spec, const union ib_gid *gid, bool ipv6)
{
	void *mask = MLX5_ADDR_OF(fte_match_param, spec->match_criteria,
				  outer_headers.dst_ipv4_dst_ipv6);
	void *value = MLX5_ADDR_OF(fte_match_param, spec->match_value,
				   outer_headers.dst_ipv4_dst_ipv6);

	if (ipv6) {
		memset(MLX5_ADDR_OF(ipv6_layout, mask, ipv6), 0xff, sizeof(gid->raw));
		memcpy(MLX5_ADDR_OF(ipv6_layout, value, ipv6), gid->raw, sizeof(gid->raw));
	} else {
		/* the last word of the mapped address */
		MLX5_SET_TO_ONES(ipv4_layout, mask, ipv4);
		memcpy(MLX5_ADDR_OF(ipv4_layout, value, ipv4), gid->raw + 12, 4);
	}
}

static int rule_add(struct rocev2_mlx5 *attach, struct rocev2_mlx5_rule *rule)
{
	bool ipv6 = !ipv6_addr_v4mapped((struct in6_addr *)rule->gid.raw);
	struct mlx5_flow_destination dest = {
		.type = MLX5_FLOW_DESTINATION_TYPE_TIR,
		.tir_num = attach->tirn[ipv6 ? ROCEV2_MLX5_TIR_IPV6 : ROCEV2_MLX5_TIR_IPV4],
	};
	struct mlx5_flow_act act = { .action = MLX5_FLOW_CONTEXT_ACTION_FWD_DEST };
	struct mlx5_flow_handle *handle;
	struct mlx5_flow_spec *spec;
	void *mask, *value;

	spec = kvzalloc_obj(*spec);
	if (!spec)
		return -ENOMEM;
	spec->match_criteria_enable = MLX5_MATCH_OUTER_HEADERS;
	mask = MLX5_ADDR_OF(fte_match_param, spec->match_criteria, outer_headers);
	value = MLX5_ADDR_OF(fte_match_param, spec->match_value, outer_headers);
	set_ip_version(attach, spec, ipv6);
	eth_broadcast_addr(MLX5_ADDR_OF(fte_match_set_lyr_2_4, mask, dmac_47_16));
	ether_addr_copy(MLX5_ADDR_OF(fte_match_set_lyr_2_4, value, dmac_47_16), attach->mac);
	set_address(spec, &rule->gid, ipv6);
	MLX5_SET_TO_ONES(fte_match_set_lyr_2_4, mask, ip_protocol);
	MLX5_SET(fte_match_set_lyr_2_4, value, ip_protocol, IPPROTO_UDP);
	MLX5_SET_TO_ONES(fte_match_set_lyr_2_4, mask, udp_dport);
	MLX5_SET(fte_match_set_lyr_2_4, value, udp_dport, ROCEV2_UDP_DPORT);
	handle = mlx5_add_flow_rules(attach->table, spec, &act, &dest, 1);
	kvfree(spec);
	if (IS_ERR(handle))
		return PTR_ERR(handle);
	rule->handle = handle;
	return 0;
}

static void rule_del(struct rocev2_mlx5_rule *rule)
{
	if (rule->handle)
		mlx5_del_flow_rules(rule->handle);
	rule->handle = NULL;
}

static void say_not_steered(struct rocev2_mlx5 *attach, const union ib_gid *gid, int error)
{
	dev_warn_ratelimited(attach->dev,
			     "rocev2: no rule for %pI6c (error %d): its packets come through the netdev\n",
			     gid->raw, error);
}

/*
 * A packet without a rule is not lost, only slower: so there is none until a link takes what the
 * queues receive.
 */
static void rule_add_or_say(struct rocev2_mlx5 *attach, struct rocev2_mlx5_rule *rule)
{
	int ret;

	if (!attach->started || !rcu_access_pointer(attach->link) || rule->handle)
		return;
	ret = rule_add(attach, rule);
	if (ret)
		dev_warn_ratelimited(attach->dev,
				     "rocev2: the card takes no rule for %pI6c (error %d): its packets come through the netdev\n",
				     rule->gid.raw, ret);
}

static int table_create(struct rocev2_mlx5 *attach)
{
	struct mlx5_flow_table_attr attr = {
		.max_fte = MAX_RULES,
		/* one for IPv4, one for IPv6 */
		.autogroup.max_num_groups = 2,
	};
	struct mlx5_flow_namespace *ns;

	ns = mlx5_get_flow_namespace(attach->mdev, MLX5_FLOW_NAMESPACE_BYPASS);
	if (!ns)
		return -EOPNOTSUPP;
	attach->table = mlx5_create_auto_grouped_flow_table(ns, &attr);
	return PTR_ERR_OR_ZERO(attach->table);
}

/**
 * rocev2_mlx5_rules_steer() - have the card steer what it does not yet
 * @attach: the function
 *
 * Context: process, hw_lock.
 */
void rocev2_mlx5_rules_steer(struct rocev2_mlx5 *attach)
{
	struct rocev2_mlx5_rule *rule;

	list_for_each_entry(rule, &attach->rules, node)
		rule_add_or_say(attach, rule);
}

/**
 * rocev2_mlx5_steering_open() - bring the packets of all addresses to the receive queues
 * @attach: the function; its receive queues are open
 *
 * Context: process, hw_lock.
 *
 * Return: 0 or a negative errno.
 */
int rocev2_mlx5_steering_open(struct rocev2_mlx5 *attach)
{
	int ret;

	ret = rqt_create(attach);
	if (ret)
		return ret;
	ret = tir_create(attach, ROCEV2_MLX5_TIR_IPV4);
	if (ret)
		goto err_rqt;
	ret = tir_create(attach, ROCEV2_MLX5_TIR_IPV6);
	if (ret)
		goto err_tir4;
	ret = table_create(attach);
	if (ret)
		goto err_tir6;
	attach->started = true;
	rocev2_mlx5_rules_steer(attach);
	return 0;

err_tir6:
	mlx5_core_destroy_tir(attach->mdev, attach->tirn[ROCEV2_MLX5_TIR_IPV6]);
err_tir4:
	mlx5_core_destroy_tir(attach->mdev, attach->tirn[ROCEV2_MLX5_TIR_IPV4]);
err_rqt:
	mlx5_core_destroy_rqt(attach->mdev, attach->rqtn);
	return ret;
}

/**
 * rocev2_mlx5_steering_close() - leave all packets to the netdev
 * @attach: the function
 *
 * Context: process, hw_lock.
 */
void rocev2_mlx5_steering_close(struct rocev2_mlx5 *attach)
{
	struct rocev2_mlx5_rule *rule;

	attach->started = false;
	list_for_each_entry(rule, &attach->rules, node)
		rule_del(rule);
	mlx5_destroy_flow_table(attach->table);
	mlx5_core_destroy_tir(attach->mdev, attach->tirn[ROCEV2_MLX5_TIR_IPV6]);
	mlx5_core_destroy_tir(attach->mdev, attach->tirn[ROCEV2_MLX5_TIR_IPV4]);
	mlx5_core_destroy_rqt(attach->mdev, attach->rqtn);
}

static void rule_forget(struct rocev2_mlx5_rule *rule)
{
	rule_del(rule);
	list_del(&rule->node);
	kfree(rule);
}

static struct rocev2_mlx5_rule *rule_find(struct rocev2_mlx5 *attach, const union ib_gid *gid)
{
	struct rocev2_mlx5_rule *rule;

	list_for_each_entry(rule, &attach->rules, node) {
		if (!memcmp(&rule->gid, gid, sizeof(*gid)))
			return rule;
	}
	return NULL;
}

void rocev2_mlx5_gid_add(void *priv, const union ib_gid *gid)
{
	struct rocev2_mlx5 *attach = priv;
	struct rocev2_mlx5_rule *rule;

	mutex_lock(&attach->hw_lock);
	rule = rule_find(attach, gid);
	if (rule)
		goto out;
	rule = kzalloc_obj(*rule);
	if (!rule) {
		say_not_steered(attach, gid, -ENOMEM);
		goto out;
	}
	rule->gid = *gid;
	list_add_tail(&rule->node, &attach->rules);
	rule_add_or_say(attach, rule);
out:
	mutex_unlock(&attach->hw_lock);
}

void rocev2_mlx5_gid_del(void *priv, const union ib_gid *gid)
{
	struct rocev2_mlx5 *attach = priv;
	struct rocev2_mlx5_rule *rule;

	mutex_lock(&attach->hw_lock);
	rule = rule_find(attach, gid);
	/* none: there was no memory for it */
	if (rule)
		rule_forget(rule);
	mutex_unlock(&attach->hw_lock);
}

/**
 * rocev2_mlx5_rules_forget() - no address is ours any more
 * @attach: the function
 *
 * Context: process, hw_lock.
 */
void rocev2_mlx5_rules_forget(struct rocev2_mlx5 *attach)
{
	struct rocev2_mlx5_rule *rule, *next;

	list_for_each_entry_safe(rule, next, &attach->rules, node)
		rule_forget(rule);
}
