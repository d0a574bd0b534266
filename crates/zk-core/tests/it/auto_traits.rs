//! Which public types may move between threads and be shared: a table the compiler checks.

use zk_core::*;

fn is_send<T: Send>() {}
fn is_sync<T: std::marker::Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + std::marker::Sync + 'static>() {}
fn is_send_future<F: Future + Send + 'static>(_: impl Fn(Session) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

// covers: C1
#[test]
fn public_types_are_send_sync_and_clone() {
    send_sync_clone!(
        Acl,
        AclEntry,
        ConnectError,
        ConnectString,
        Create,
        Delete,
        Error,
        ErrorClass,
        ErrorKind,
        Exists,
        Get,
        GetAcl,
        GetStat,
        List,
        NodePath,
        Operation,
        ParseConnectStringError,
        ParsePathError,
        Permissions,
        ServerAddress,
        Session,
        SessionBuilder,
        SessionId,
        Set,
        SetAcl,
        Stat,
        Sync,
        Unanswered,
    );
    is_error::<ConnectError>();
    is_error::<Error>();
    is_error::<ParseConnectStringError>();
    is_error::<ParsePathError>();
    is_error::<Unanswered>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(|session| session.create("/", "").into_future());
    is_send_future(|session| session.get("/").into_future());
    is_send_future(|session| session.set("/", "").into_future());
    is_send_future(|session| session.exists("/").into_future());
    is_send_future(|session| session.stat("/").into_future());
    is_send_future(|session| session.list("/").into_future());
    is_send_future(|session| session.delete("/").into_future());
    is_send_future(|session| session.sync("/").into_future());
    is_send_future(|session| session.acl("/").into_future());
    is_send_future(|session| session.set_acl("/", Acl::open()).into_future());
    is_send_future(|session| async move { session.close().await });
    is_send_future(|session| async move { session.lost().await });
    is_send_future(|_| Session::builder("h").connect());
}
