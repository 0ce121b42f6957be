# ruff: noqa: E501 - a line describes one kind of object, and is read like a row of a table
"""A server with several hundred tools, as a network inventory, a helpdesk, a shop and a personnel
office would have them, and what people ask of it."""

from __future__ import annotations

from typing import Any

from django_mcp import Server

NOUNS = """
dcim|device|devices|A piece of hardware that is mounted in a rack, such as a server, a switch or a router.|serial: serial number of the manufacturer; rack: the rack it stands in; status: active, planned, offline
dcim|rack|racks|A cabinet in a data centre with a number of units for hardware.|u_height: height in units; site: the site of the rack
dcim|site|sites|A building or campus where hardware stands.|time_zone: its time zone; physical_address: postal address
dcim|cable|cables|A connection between two ports: its ends, length and colour.|length: in metres; color: colour of the cable
dcim|interface|interfaces|A network port of a hardware item.|mtu: size of packets; mac_address: hardware address
dcim|power_feed|power feeds|An electrical circuit that supplies a rack.|voltage: in volts; amperage: in amperes
dcim|manufacturer|manufacturers|The vendor who makes hardware.|slug: short name
dcim|inventory_item|inventory items|A part inside a hardware item, such as a line card or a disk.|part_id: number of the part
ipam|ip_address|IP addresses|An IPv4 or IPv6 address that is assigned to a network port.|dns_name: host name; vrf: routing table
ipam|prefix|prefixes|A subnet: a range of the address space in CIDR notation.|is_pool: whether all of it can be assigned
ipam|vlan|VLANs|A virtual local area network with its number.|vid: number of the VLAN
ipam|asn|ASNs|An autonomous system number for BGP routing.|rir: the registry
circuits|circuit|circuits|A line that is rented from a telecommunications provider.|cid: the provider's id; commit_rate: bandwidth
circuits|provider|providers|A telecommunications company from which lines are rented.|account: customer number there
virtualization|virtual_machine|virtual machines|A guest that runs on a hypervisor cluster.|vcpus: processors; memory: in megabytes
virtualization|cluster|clusters|A group of hypervisors on which guests run.|type: kind of hypervisor
tenancy|tenant|tenants|A customer or department to whom hardware is assigned.|slug: short name
extras|tag|tags|A coloured label for any object.|color: its colour
extras|webhook|webhooks|A URL that is called when objects change.|payload_url: where to send
wireless|wireless_lan|wireless LANs|A Wi-Fi network with its SSID.|auth_psk: the pre-shared key
help|ticket|tickets|A problem that a customer reported, with its state and priority.|priority: low, normal, high, urgent; assignee: who works on it; due: date until which it must be solved
help|comment|comments|A reply or an internal note below a ticket.|is_internal: whether the customer cannot read it
help|queue|queues|A team's inbox of reported problems.|email: address of the inbox
help|canned_response|canned responses|A prepared text with which agents answer frequent questions.|shortcut: keys to insert it
help|sla|SLAs|The hours within which a reported problem has to be answered.|hours: hours until the first answer
help|article|articles|A page of the knowledge base with instructions.|body: the text; category: its chapter
help|attachment|attachments|A file or screenshot that was uploaded with a reply.|mime_type: kind of file
help|customer_satisfaction|satisfaction ratings|The stars that a customer gave after a problem was solved.|score: 1 to 5
shop|product|products|An item that is sold, with its price and stock.|price: in euros; sku: stock keeping unit
shop|order|orders|What a customer bought, with its lines, total and state.|state: open, paid, sent, cancelled; customer: who bought
shop|invoice|invoices|A bill for goods that were bought.|due: date of payment; total: amount with tax
shop|refund|refunds|Money that is paid back to a buyer.|amount: in euros; reason: why
shop|coupon|coupons|A discount code for the checkout.|percent: percentage off; expires: last day
shop|shipment|shipments|A parcel on its way, with carrier and tracking number.|tracking: number of the parcel; carrier: who delivers
shop|warehouse|warehouses|A building in which goods are stored.|city: where it is
shop|supplier|suppliers|A company from which goods are bought for resale.|lead_time: days until delivery
shop|review|reviews|An opinion with stars that a buyer wrote about an item.|stars: 1 to 5
shop|cart|carts|Items that a visitor collected and has not bought yet.|session: the visitor
shop|tax_rate|tax rates|The percentage of VAT by country.|country: ISO code
shop|gift_card|gift cards|A voucher with a balance.|balance: money that is left
shop|newsletter_subscription|newsletter subscriptions|The address of someone who receives marketing mails.|email: address
shop|category|categories|A department of the catalogue.|parent: the one above
hr|Employee|Employees|A person who works for the company, with salary and manager.|salary: per year; manager: the superior; hiredOn: first day
hr|LeaveRequest|LeaveRequests|A request for vacation or time off.|start: first day; days: how many
hr|Payslip|Payslips|The monthly statement of wages.|month: year and month
hr|Timesheet|Timesheets|The hours that somebody worked in a week.|week: ISO week; hours: hours per day
hr|Candidate|Candidates|A person who applied for a job.|resume: curriculum vitae
hr|JobOpening|JobOpenings|A vacant position that is advertised.|location: where
hr|Interview|Interviews|A meeting with an applicant.|panel: who takes part
hr|PerformanceReview|PerformanceReviews|The yearly appraisal of somebody's work.|grade: result
hr|Expense|Expenses|Money that somebody paid for the company, such as a hotel, to be reimbursed.|receipt: scan; amount: in euros
hr|TrainingCourse|TrainingCourses|A seminar that staff can attend.|seats: how many
hr|Contract|Contracts|The agreement of employment with notice period.|notice: weeks of notice
hr|SickNote|SickNotes|The certificate of a doctor for days of illness.|days: how many
hr|Department|Departments|A unit of the organisation with its head.|head: who leads it
hr|Badge|Badges|The card that opens doors of the office.|number: printed on it
hr|BenefitPlan|BenefitPlans|Health insurance or pension that the company offers.|premium: per month
hr|EmergencyContact|EmergencyContacts|The relative to call after an accident.|phone: number
"""
ACTIONS = """
help_ticket_assign|Give a ticket to an agent, who becomes responsible for it.|agent: who
help_ticket_close|Close a ticket after the problem was solved.|resolution: what helped
help_ticket_merge|Combine two tickets about the same problem.|into: the one that stays
help_ticket_escalate|Raise the priority of a ticket and notify the supervisor.|reason: why
shop_order_cancel|Cancel an order that was not sent yet.|reason: why
shop_order_ship|Mark an order as sent and notify the buyer.|tracking: number of the parcel
shop_product_restock|Increase the stock of an item after a delivery.|quantity: how many
shop_invoice_send|Email an invoice as PDF to the buyer.|to: address
shop_sales_report|Sum up turnover by day, month or category.|since: first day; group_by: what
hrApproveLeaveRequest|Approve somebody's vacation.|comment: for the person
hrRejectLeaveRequest|Decline somebody's vacation.|comment: for the person
hrTerminateEmployee|End somebody's employment at a date.|date: last day
hrPromoteEmployee|Give somebody a higher position and salary.|title: new job title
hrOrgChart|Who reports to whom in the company, as a tree.|root: where to begin
ipam_prefix_available_ips|Free addresses of a subnet that can be assigned.|count: how many
dcim_device_render_config|Render the configuration file of a hardware item from its template.|template: which
dcim_rack_elevation|A drawing of a cabinet: what is mounted in which unit.|face: front or rear
dcim_cable_trace|Follow a connection from one port to the other end, over patch panels.|port: where to begin
"""
VERBS = {
    "list": "List {plural}. {about}",
    "retrieve": "Get one {singular} by its id. {about}",
    "create": "Create a {singular}. {about}",
    "update": "Change fields of a {singular}. {about}",
    "destroy": "Delete a {singular}. {about}",
}
HR_VERBS = {
    "list": "list{}s",
    "retrieve": "get{}",
    "create": "create{}",
    "update": "update{}",
    "destroy": "delete{}",
}

QUESTIONS = {
    "Which switches and routers stand in Amsterdam?": "dcim_device_list",
    "A new server arrived, put it into the inventory of hardware": "dcim_device_create",
    "How many units are free in the cabinet, what is mounted where?": "dcim_rack_elevation",
    "What is at the other end of this patch cable?": "dcim_cable_trace",
    "Correct the postal address of our building in Lyon": "dcim_site_update",
    "Give me the voltage of the electrical supply of rack 7": "dcim_power_feed_retrieve",
    "I need a free address in the subnet 10.1.0.0/24": "ipam_prefix_available_ips",
    "Who has 192.168.3.14? Look up that IPv4": "ipam_ip_address_retrieve",
    "Reserve a new subnet for the lab": "ipam_prefix_create",
    "All virtual networks and their numbers": "ipam_vlan_list",
    "Which lines do we rent from telecom companies?": "circuits_circuit_list",
    "Set up another guest with 4 processors on the hypervisor": "virtualization_virtual_machine_create",
    "Give the guest more memory": "virtualization_virtual_machine_update",
    "What's the SSID of the office Wi-Fi?": "wireless_wireless_lan_retrieve",
    "Call this URL whenever something changes": "extras_webhook_create",
    "Show everything customers reported that is still urgent": "help_ticket_list",
    "A customer reports a problem with the printer, file it": "help_ticket_create",
    "Hand this ticket over to Grace, she is responsible now": "help_ticket_assign",
    "These two tickets are about the same problem": "help_ticket_merge",
    "It is solved, we are done with ticket 12": "help_ticket_close",
    "Write an internal note for my colleagues below the ticket": "help_comment_create",
    "Are there instructions in the knowledge base about VPN?": "help_article_list",
    "How many stars did customers give after we solved their problems?": "help_customer_satisfaction_list",
    "Which items are out of stock?": "shop_product_list",
    "Raise the price of the teapot to 20 euros": "shop_product_update",
    "What did Ms. Hopper buy last week?": "shop_order_list",
    "The buyer changed her mind, stop the order before it is sent": "shop_order_cancel",
    "Pay 20 euros back to the buyer": "shop_refund_create",
    "Make a 10 percent discount code for Christmas": "shop_coupon_create",
    "Where is the parcel, which carrier has it?": "shop_shipment_list",
    "Mail the bill to the buyer as a PDF": "shop_invoice_send",
    "What was our turnover last month?": "shop_sales_report",
    "Take this address out of the marketing mails": "shop_newsletter_subscription_destroy",
    "I would like to take two weeks of vacation in August": "createLeaveRequest",
    "Allow Bob's vacation": "hrApproveLeaveRequest",
    "How much does Ada earn, what is her salary?": "getEmployee",
    "Who is the boss of whom?": "hrOrgChart",
    "Enter the hours that I worked this week": "createTimesheet",
    "Who applied for the job as a developer?": "listCandidates",
    "I paid for a hotel, how do I get reimbursed by the company?": "createExpense",
}


MORE_QUESTIONS = {
    "Register a new vendor of routers": "dcim_manufacturer_create",
    "What colour is the cable between port 3 and 4?": "dcim_cable_retrieve",
    "Remove the broken disk from the list of parts of the server": "dcim_inventory_item_destroy",
    "Rename the VLAN 40": "ipam_vlan_update",
    "Which telecommunications companies do we use?": "circuits_provider_list",
    "Shut down and delete the guest web-17": "virtualization_virtual_machine_destroy",
    "Notify another system through an URL when a rack is modified": "extras_webhook_create",
    "Add a screenshot to the reply": "help_attachment_create",
    "How fast do we promise to answer?": "help_sla_list",
    "The customer is angry, make the ticket more important and tell the boss": "help_ticket_escalate",
    "Edit the prepared answer about passwords": "help_canned_response_update",
    "New delivery of 50 teapots, increase the stock": "shop_product_restock",
    "The parcel was handed to the carrier, tell the buyer that the order is on its way": "shop_order_ship",
    "How much money is left on gift card 889?": "shop_gift_card_retrieve",
    "What is the VAT in Denmark?": "shop_tax_rate_retrieve",
    "Show bad opinions of buyers": "shop_review_list",
    "Invite an applicant to a meeting on Tuesday": "createInterview",
    "My doctor says I am ill for three days": "createSickNote",
    "She lost the card that opens the office door, delete it": "deleteBadge",
    "Whom do we call if Grace has an accident?": "getEmergencyContact",
}
"""Questions with which the ranking was not made: they were written before it answered them."""


def catalogue(copies: int = 1, **options: Any) -> Server:
    """A server with these tools; further copies have other names."""
    server = Server("everything", tool_search=True, **options)
    for copy in range(copies):
        mark = "" if copy == 0 else f"_{copy}"
        for line in NOUNS.strip().splitlines():
            _add_operations(server, mark, *line.split("|"))
        for line in ACTIONS.strip().splitlines():
            name, about, fields = line.split("|")
            _add(server, f"{name}{mark}", about, fields)
    return server


def few_tools(count: int, **options: Any) -> Server:
    """A server with some of the tools, about tickets if there are enough."""
    server = Server("few", tool_search=True, **options)
    tools = catalogue().components.of_kind("tool")
    chosen = sorted(tools, key=lambda tool: not tool.name.startswith("help_ticket_"))
    for tool in [tool for tool in chosen if not tool.is_in_every_selection][:count]:
        server.components.add(tool)
    return server


def _add_operations(
    server: Server, mark: str, app: str, singular: str, plural: str, about: str, fields: str
) -> None:
    for verb, text in VERBS.items():
        name = f"{app}_{singular}_{verb}"
        if app == "hr":
            name = HR_VERBS[verb].format(singular)
        words = {"singular": singular.replace("_", " "), "plural": plural, "about": about}
        given = fields if verb in ("create", "update", "list") else "id: the id"
        _add(server, f"{name}{mark}", text.format(**words), given)


def _add(server: Server, name: str, description: str, fields: str) -> None:
    pairs = [field.split(": ", 1) for field in fields.split("; ")]
    properties = {key: {"type": "string", "description": about} for key, about in pairs}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}

    async def answer(params: Any) -> str:
        return f"{name} was called"

    server.tool(name=name, description=description, input_schema=schema)(answer)
