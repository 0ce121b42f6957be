"""Tool calls that wait until a person has approved them.

An approval is *requested* by a call, *decided* by a person, and used by one run. It is a task that
*waits* before its start, with a second row for its approvers. The path of a call:

1. ``tools/call`` follows the steps of the plan of its tool (``core.dispatch.plan.Plan.call``). The
   first one after the validation is ``step.request_approval``, because it ``decides``. It returns
   None where the call needs no approval, and the call goes on.
2. Otherwise ``step.describe`` makes the row, and ``TaskStore.create_waiting`` stores it. The same
   call is not stored twice while it is active.
3. ``prompts.ask`` requests the decision from a caller who may decide. ``step._answer`` answers the
   call: with its task, with a result, or with its status. Nothing has run yet.
4. A person decides on a page (``views``), in the admin, or in the client: ``Approval.decide``. The
   status of the task and the decision are stored in one transaction. After the commit of a page,
   ``submission.follow`` runs an approved task in this process, or submits it to the runner;
   ``step._answer`` does the same for a decision in the client.
5. The runner calls ``tasks.execution.run``. ``TaskStore.start`` leases the row to one run, and
   ``execution.restore`` makes the Frame again. ``step.grant`` verifies the row, and sets the
   ``Grant``.
6. The run makes the same call by the same plan. ``step.request_approval`` uses the grant, and the
   handler runs. ``Run.follow`` stores how it ends.
7. The caller reads the result from the task, or by the tool ``approval_status``.

Where the client still waits in step 4, step 5 is ``continued_calls.run_here``: the call itself runs
the task, with its client.

Invariants:

* A call that needs an approval passes the step only with a ``Grant``: for one server, tool and
  arguments, and for one call. ``step.grant`` makes it from a verified row. Without the step, only
  ``step._run_with_client`` runs the handler: the row was verified, and has been started.
* The first decision counts, and a task starts once. No status leads back; the states, and who
  moves them, are in ``models``.
* ``Approval.stored_call`` compares the columns that decide who may approve the call, and as whom it
  runs, with the encrypted call. Who can write to the table can change neither.
* The permissions of the caller are checked in step 1, and again in step 6.
* An approved task that was not started is submitted again: by the housekeeping, by its caller who
  looks, or by a person on the page.
"""
