-- The SQL that the book shows. `book.rs` runs each region, and `tests/rules/documents/snippets.rs` compares the book with it.

-- [insert]
-- A partner that may be down for days: 10 retries, the last ones a day apart.
INSERT INTO notify_def (name, retry_interval, max_retry_times, timeout) VALUES ('sync_order', '[5s,5m,1h,1d]', 10, '10s');
-- A service with a low capacity: 100 attempts a minute over all nodes, at night only, sent by the handler `http`.
INSERT INTO notify_def (name, handler, rate_limit, send_window) VALUES ('export_stock', 'http', '100/1m', '22:00-06:00 Europe/Berlin');
-- A report every morning at three, whose receiver must ack within 2 hours; its failures are mailed.
INSERT INTO notify_def (name, schedule, need_confirm, max_confirm_delay, email)
VALUES ('daily_report', '0 0 3 * * * Europe/Berlin', true, '2h', 'shift@example.org');
-- [end]

-- [mask]
UPDATE notify_def SET mask = '["$.card.number", "$.items[*].iban", "$..password"]' WHERE name = 'charge_card';
-- [end]

-- [encrypt_param]
UPDATE notify_def SET encrypt_param = true WHERE name = 'charge_card';
-- [end]

-- [key_in_use]
SELECT count(*)
FROM (SELECT param FROM notify_msg UNION ALL SELECT param FROM notify_msg_history) notices
WHERE CAST(param AS char(120)) LIKE '{"$encrypted":"2025"%';
-- [end]

-- [recipients]
UPDATE notify_def SET email = 'final_failure=shift@example.org', alert_to = 'dead_letters=ops' WHERE name = 'report_sale';
-- [end]

-- [targets]
INSERT INTO notify_def (name, handler) VALUES ('order', 'http');
-- The configuration of each receiver is for the handler. What a row leaves out, it inherits from `order`.
INSERT INTO notify_def (name, target_of, handler_config)
SELECT 'order/erp', id, '{"url":"https://erp.example.org/orders"}' FROM notify_def WHERE name = 'order';
INSERT INTO notify_def (name, target_of, target_filter, max_concurrency, handler_config)
SELECT 'order/customs', id, '@.amount >= 1000 && @.country != ''DE''', 2, '{"url":"https://customs.example.org"}'
FROM notify_def WHERE name = 'order';
-- [end]

-- [webhook]
INSERT INTO notify_def (name, handler, handler_config) VALUES ('order_paid', 'webhook', '{
  "url": "https://shop.example.com/orders/{{ param.order | urlencode }}",
  "allow_hosts": ["shop.example.com"],
  "headers": { "x-shop": "{{ param.shop }}" },
  "signing_keys": ["env:NOTIFY_SECRET_SHOP"],
  "timeout": "10s"
}');
-- [end]

-- [sms]
INSERT INTO notify_def (name, handler, rate_limit, handler_config) VALUES ('order_sms', 'webhook', '10/1s', '{
  "url": "https://sms.example.com/v1/messages",
  "auth": { "basic": { "user": "shop", "password": "env:NOTIFY_SECRET_SMS" } },
  "body": { "form": {
    "to": "{{ param.phone }}",
    "from": "Shop",
    "text": "Order {{ param.order }} has been paid.",
    "reference": "{{ notice.idempotency_key }}"
  } }
}');
-- [end]

-- [payslip]
INSERT INTO notify_def (name, handler, handler_config) VALUES ('payslip', 'mail', '{
  "smtp": "env:NOTIFY_SECRET_SMTP",
  "from": "payroll@example.org",
  "from_name": "Payroll",
  "to": ["{{ param.email }}"],
  "subject": "Your payslip of {{ param.month }}",
  "text": "Dear {{ param.name }}, your payslip is attached.",
  "attachments": [
    {"name": "payslip-{{ param.month }}.pdf", "content_type": "application/pdf", "file": "{{ param.file }}"}
  ]
}');
-- [end]

-- [approval]
INSERT INTO notify_def (name, handler) VALUES ('leave_request', 'mail');
INSERT INTO notify_def (name, target_of, handler_config)
SELECT 'leave_request/managers', id, '{
  "smtp": "env:NOTIFY_SECRET_SMTP",
  "from": "hr@example.org",
  "to": ["{{ param.managers | map(attribute=''email'') }}"],
  "reply_to": ["{{ param.email }}"],
  "subject": "{{ param.name }} asks for {{ param.days }} days off",
  "html": "<p>{{ param.name }}: {{ param.reason }}</p><p><a href=''https://hr.example.org/leave/{{ param.id }}''>Decide</a></p>"
}' FROM notify_def WHERE name = 'leave_request';
INSERT INTO notify_def (name, target_of, handler, handler_config)
SELECT 'leave_request/team', id, 'chat', '{
  "service": "ding_talk",
  "url": "file:/run/secrets/solid-notify/hr-robot-url",
  "secret": "file:/run/secrets/solid-notify/hr-robot-secret",
  "text": "{{ param.name }} asks for {{ param.days }} days off: https://hr.example.org/leave/{{ param.id }}"
}' FROM notify_def WHERE name = 'leave_request';
-- [end]

-- [dead_letters]
SELECT id, description, last_class, last_error, failures, crashes, finish_time, end_reason
FROM notify_error
WHERE def_id = (SELECT id FROM notify_def WHERE name = 'sync_order')
ORDER BY finish_time DESC
LIMIT 50;
-- [end]

-- [inbox]
INSERT INTO notify_inbox (receiver, sender, idempotency_key) VALUES ('warehouse', 'shop', '17-1764000000000') ON CONFLICT DO NOTHING;
-- [end]

-- [add_on_postgres]
SELECT notify_add('remind', '{"order": 7}', delay => '1 hour', unique_until_ended => 'order 7');
-- [end]

-- [add_on_mysql]
CALL notify_add('sync_order', '{"order": 7}');
CALL notify_add_with('remind', '{"order": 7}', NULL, 3600, NULL, NULL, 'order 7', NULL, NULL, NULL, NULL, @id);
-- [end]

-- [ack_on_mysql]
CALL notify_ack(7, @result);
SELECT @result;
-- [end]

-- [add_on_sqlite]
INSERT INTO notify_add (name, param, delay, unique_until_ended) VALUES ('remind', '{"order": 7}', 3600, 'order 7');
-- [end]

-- [to_rabbitmq]
INSERT INTO notify_def (name, retry_interval, max_retry_times, need_confirm, max_confirm_delay, handler, handler_config)
VALUES ('sync_order', '5m', 2, TRUE, '1m', 'amqp', '{
  "url": "env:NOTIFY_SECRET_AMQP",
  "exchange": "orders",
  "routing_key": "order.{{ param.country }}",
  "reply_queue": "order-replies"
}');
-- [end]

-- [to_nats]
INSERT INTO notify_def (name, handler, handler_config)
VALUES ('ship_order', 'nats', '{"url": "env:NOTIFY_SECRET_NATS", "subject": "orders.{{ param.country }}", "expected_stream": "ORDERS"}');
-- [end]

-- [to_redis_streams]
INSERT INTO notify_def (name, handler, handler_config)
VALUES ('index_order', 'redis_stream', '{"url": "env:NOTIFY_SECRET_REDIS", "stream": "orders", "maxlen": 100000}');
-- [end]
